"""Checks that the results of a step add up over rows: by runs of it, and in its graph."""
