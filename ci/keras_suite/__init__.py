"""Keras's own tests, in plain pytest and on ranks: `python -m ci.keras_suite`."""
