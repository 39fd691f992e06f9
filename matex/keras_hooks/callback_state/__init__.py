"""State of the callbacks of a fit that a checkpoint holds beside that of the model."""
