"""Published rules as pure functions over NumPy arrays: no communication, no TensorFlow."""
