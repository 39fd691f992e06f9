"""The run that this process takes part in: what it is made of on one rank, and how all leave it."""
