"""Checkpoints of a run: when and where it saves itself, and how it finds them again."""
