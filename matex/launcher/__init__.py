"""Start, supervision and restart of the ranks of a run."""
