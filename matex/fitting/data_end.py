"""Listener to the end of data of unknown length."""

from __future__ import annotations

from matex.fitting.listeners import FitListener
from matex.fitting.update_check import UpdateCheck
from matex.steps.end_of_data import EndOfData

__all__ = ["DataEnd"]


class DataEnd(FitListener):
    """Makes plain Keras's changes where data end, which are no update of a step. Local.

    Args:
        end: maker of the changes.
        updates: check that each step was one update.
    """

    def __init__(self, end: EndOfData, updates: UpdateCheck) -> None:
        self._end = end
        self._updates = updates

    def data_ended(self) -> None:
        """Make the changes, and leave them out of the updates of steps."""
        with self._updates.left_out():
            self._end.passed()
