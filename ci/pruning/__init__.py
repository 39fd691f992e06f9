"""Random graphs, pruned and compared with what they were."""
