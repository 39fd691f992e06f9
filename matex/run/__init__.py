"""The run that this process takes part in: its parts on one rank, and how all ranks leave it."""
