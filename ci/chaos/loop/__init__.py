"""The loop layer: the loop of ft's own documentation, on ranks that are killed."""
