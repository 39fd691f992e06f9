"""Listeners to the events of a rank: the curves, the trace, the faults."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import ft
from matex.records.events import Event
from matex.records.scalars import TENSORBOARD
from matex.records.trace_part import TracePart
from matex.run.scalar_log import ScalarLog

__all__ = ["EventListeners"]

# After these events this rank, or another, may end.
_LAST = ("fault", "death", "recovered")


class EventListeners:
    """Passes events on to curves, trace and faults; local.

    Args:
        report: directory of the report; None if there is none.
        trace: part of the trace, which is flushed before this rank can end.
        faults: injector of the run, which comes last because it may strike.
        leads: function that returns whether this rank writes for all.
        complain: function called with one line, at the first failed write.
    """

    def __init__(
        self,
        report: Path | None,
        trace: TracePart,
        faults: ft.Injector,
        *,
        leads: Callable[[], bool],
        complain: Callable[[str], None],
    ) -> None:
        directory = None if report is None else report / TENSORBOARD
        self._scalars = ScalarLog(directory, complain)
        self._trace = trace
        self._faults = faults
        self._leads = leads

    def receive(self, event: Event) -> None:
        """Pass on *event*, after it was written."""
        self._scalars.write(event, leads=self._leads())
        if event["event"] in _LAST:
            self._trace.flush()
        self._faults.heard(event["event"])
