"""The directories of a run before its ranks are started."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from matex.config import Config
from matex.launcher.earlier_report import claim, forget, written
from matex.launcher.locks import owned
from matex.records.event_order import newest_start
from matex.records.events import EVENTS, EventLog, read_events
from matex.records.launcher_protocol.heartbeat_file import FILE
from matex.records.launcher_protocol.resize_request import RESIZE
from matex.records.launcher_protocol.starting_file import STARTING
from matex.records.summary import SUMMARY

__all__ = ["all_owned", "prepare"]


def prepare(report: Path, checkpoint: Path | None) -> None:
    """Make *report* ready for a run that saves to *checkpoint*.

    The files of an earlier run are removed, except where this run continues it, as a batch job
    does that was put back into the queue: then its events and logs are kept, and continued.

    Raises:
        InputError: the directory cannot be written, or has files of a run's names that are of none.
    """
    events = report / EVENTS
    claim(report)
    with written(report):
        if checkpoint is not None and events.exists() and _is_of(events, checkpoint):
            for name in (SUMMARY, FILE, RESIZE, STARTING):
                (report / name).unlink(missing_ok=True)
            _end_with_a_whole_line(events)
            start = newest_start(read_events(events))
            EventLog(events, -1, start=start).write("continued")
            return
        forget(report)


def _is_of(events: Path, checkpoint: Path) -> bool:
    """Whether *events* name a file in *checkpoint* that still exists."""
    written = (
        Path(e["path"])
        for e in read_events(events)
        if e["event"] == "checkpoint" and e["tier"] == "files"
    )
    return any(path.parent == checkpoint.absolute() and path.exists() for path in written)


def _end_with_a_whole_line(path: Path) -> None:
    """Cut off an incomplete last line, left by a failed machine or disk."""
    with path.open("rb+") as file:
        content = file.read()
        os.ftruncate(file.fileno(), content.rfind(b"\n") + 1)


@contextlib.contextmanager
def all_owned(config: Config) -> Iterator[list[int]]:
    """Context in which this run alone uses its directories: their lock files, for mpiexec."""
    given = {"--report": config.report, "--checkpoint": config.checkpoint}
    options = {path.absolute(): option for option, path in given.items() if path is not None}
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(owned(path, option)) for path, option in options.items()]
        yield [file for file in files if file is not None]
