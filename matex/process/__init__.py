"""One rank from its start to its end, and what Keras is attached to meanwhile."""
