"""The ft layer: random collectives, without TensorFlow."""
