"""Who computes which rows: pure, and the same on every rank."""
