"""The sources of a training's global batches, and the rows of them that a rank needs."""
