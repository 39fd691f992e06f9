"""One rank from its start to its end, and the adapter that Keras's hooks call."""
