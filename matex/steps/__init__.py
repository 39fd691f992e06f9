"""One training step: contribution, exchange, commit, and recovery."""
