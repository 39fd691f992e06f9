"""Graphs of steps: what they read and write, parts of them, and those for one size."""
