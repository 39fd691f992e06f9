"""The exception for a step that every rank declined."""

__all__ = ["StepDeclined"]


class StepDeclined(Exception):
    """No rank contributed to a step: every rank wants training to stop before it."""
