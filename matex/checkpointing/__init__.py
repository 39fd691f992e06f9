"""Checkpoints of a run: when and where it saves, and how it finds checkpoints again."""
