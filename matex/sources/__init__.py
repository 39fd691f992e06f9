"""Sources of a training's global batches, and of the rows that a rank needs."""
