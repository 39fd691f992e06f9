"""One training step: contribution, exchange, commit, and what mends it."""
