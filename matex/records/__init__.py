"""Records of a run: events while it runs, and the summary of them at its end."""
