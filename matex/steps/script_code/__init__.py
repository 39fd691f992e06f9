"""The script's Python code in a step: its state, extra runs of it, and its errors."""
