"""The updates layer: steps of several updates and custom loops, on ranks that are killed."""
