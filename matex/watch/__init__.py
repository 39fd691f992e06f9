"""Whether ranks do the same, hold the same, live, and are as quick as the others."""
