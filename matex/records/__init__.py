"""Records of a run: events while it happens, and the summary made of them at its end."""
