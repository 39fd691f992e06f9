"""Division of rows among ranks: pure, and equal on every rank."""
