"""Starting the ranks of a run, watching over them, and starting them again."""
