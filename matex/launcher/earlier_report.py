"""The files in a report directory before a run: those of an earlier run, or of somebody else."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from matex.errors import InputError
from matex.records.curve_files import is_curve_file
from matex.records.events import EVENTS, has_room, keep_room
from matex.records.launcher_protocol.heartbeat_file import FILE
from matex.records.launcher_protocol.resize_request import RESIZE
from matex.records.launcher_protocol.starting_file import STARTING
from matex.records.rank_files import files_of_ranks
from matex.records.scalars import TENSORBOARD
from matex.records.summary import FAULTS, SUMMARY
from matex.report.trace import TRACE

__all__ = ["claim", "forget", "written"]

_NAMES = (SUMMARY, FAULTS, TRACE, FILE, RESIZE, STARTING, EVENTS)

# Lines that a full disk cut off may come before the first whole one.
_FIRST_LINES = 100
_LINE_BYTES = 1 << 20


def claim(report: Path) -> None:
    """Make *report* the directory of a run, before that writes into it or removes anything.

    A run that is killed from here on is known by the room that is reserved. ``matex run`` calls
    this, and so do ranks, which may have started without it.

    Raises:
        InputError: the directory cannot be written, or has files of a run's names that are of none.
    """
    with written(report):
        report.mkdir(parents=True, exist_ok=True)
        _check_earlier(report)
        if not has_room(report):
            keep_room(report)


@contextlib.contextmanager
def written(report: Path) -> Iterator[None]:
    """Context in which errors of the system say that *report* cannot be written.

    Raises:
        InputError: it cannot.
    """
    try:
        yield
    except OSError as error:
        received = f"{error.filename or report}: {error.strerror}"
        raise InputError(f"the report directory must be writable. Received: {received}") from None


def _check_earlier(report: Path) -> None:
    """Refuse a directory with files by the names of a run's that no run has written.

    Directories in the place of its files are refused as well, and a file in that of its curves.

    Raises:
        InputError: naming the first of them.
    """
    found = _files_in(report)
    for path in found:
        if path.is_dir() and not path.is_symlink():
            raise _in_the_way(path, "a directory in the place of a file")
    if (report / TENSORBOARD).exists() and not (report / TENSORBOARD).is_dir():
        raise _in_the_way(report / TENSORBOARD, "a file in the place of a directory")
    if found and not _is_report(report):
        raise InputError(
            "the report directory must be empty or hold an earlier report. Received: "
            f"{report} has {found[0].name}, which is not of a report; name another directory"
        )


def _in_the_way(path: Path, what: str) -> InputError:
    return InputError(
        "the report directory must have room for the files of a run. Received: "
        f"{path} is {what}; move it, or name another directory"
    )


def forget(report: Path) -> None:
    """Remove the files of an earlier run from *report*, and nothing else.

    Raises:
        OSError: one cannot be removed.
    """
    for path in _files_in(report):
        path.unlink(missing_ok=True)
    curves = report / TENSORBOARD
    if curves.is_symlink() or not curves.is_dir():  # a link may lead to curves of other runs
        return
    for path in list(curves.iterdir()):
        if is_curve_file(path.name):
            path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # files of others are in it
        curves.rmdir()


def _files_in(report: Path) -> list[Path]:
    """The files in *report* that have names of a run's; events come last."""
    numbered = [*files_of_ranks(report, ".log").values()]
    numbered += files_of_ranks(report, ".trace").values()
    paths = (*numbered, *(report / name for name in _NAMES))
    return [path for path in paths if os.path.lexists(path)]


def _is_report(report: Path) -> bool:
    """Whether a run has written into *report*: it reserves room first, and then writes events."""
    return has_room(report) or _is_event(_first_record(report / EVENTS))


def _first_record(path: Path) -> Any:
    """The first JSON value in the lines of *path*; None if there is none near the begin."""
    with contextlib.suppress(OSError), path.open("rb") as file:
        for _ in range(_FIRST_LINES):
            with contextlib.suppress(ValueError):
                return json.loads(file.readline(_LINE_BYTES))
    return None


def _is_event(record: Any) -> bool:
    """Whether *record* has the fields of every event."""
    return (
        isinstance(record, dict)
        and isinstance(record.get("time_s"), float)
        and isinstance(record.get("rank"), int)
        and isinstance(record.get("event"), str)
    )
