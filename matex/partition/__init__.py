"""Division of rows among ranks: pure, equal on every rank."""
