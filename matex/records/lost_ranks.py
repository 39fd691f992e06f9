"""Lost ranks of a run, and the causes: an error of the script, a signal, an injected fault.

A rank that ends in error writes the event ``death`` with the fields from :func:`told_of`, and one
that leaves on request writes ``left``. A rank ended by a signal writes nothing. The others write
``recovered``, whose ``lost`` are all ranks without which they go on, also those that have ``left``.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import ft
from matex.errors import DataError, MatexError
from matex.records.events import Event, EventLog
from matex.records.launcher_protocol.resize_request import LeftOnRequest
from matex.records.starts import starts_of

__all__ = [
    "LOST_STRICTLY",
    "OWN_ERRORS",
    "advice",
    "lost_to_own_errors",
    "ranks_left",
    "ranks_lost",
    "record_end",
    "told_of",
    "unasked",
]

#: Causes for which a run with ``--strict`` fails.
OWN_ERRORS = ("script", "data")

#: Reason of a run that failed for this alone.
LOST_STRICTLY = "lost ranks to errors of the script's own, which --strict does not allow"

_FILE_ERRORS = {
    *("BadZipFile", "FileExistsError", "FileNotFoundError", "IsADirectoryError"),
    *("NotADirectoryError", "NotFoundError", "OSError", "PermissionError", "EOFError"),
    *("BlockingIOError", "AlreadyExistsError", "DataLossError", "UnpicklingError"),
}


def record_end(events: EventLog, reason: str, *, step: int | None) -> None:
    """Record the end of this rank just before it, for a callback of :func:`ft.on_fail_stop`.

    Args:
        reason: line that the rank gives for its end.
        step: its training step.
    """
    error = ft.program_error()
    if isinstance(error, LeftOnRequest):
        events.write("left", step=step, request=str(error))
    else:
        told = told_of(error, reason, script=Path(sys.argv[0]))
        events.write("death", reason=reason, step=step, **told)


def told_of(
    error: BaseException | None, reason: str, *, script: Path | None = None
) -> dict[str, str]:
    """Fields ``cause``, ``error`` and ``where`` of a rank's death.

    Args:
        error: exception of the program that ends the process; None if there is none.
        reason: line that the rank gives for its end.
        script: file of the script; ``where`` is the innermost line in its directory or below.
    """
    if error is None:
        return {"cause": "evicted" if reason.endswith(": evicted") else "ended", "error": reason}
    if isinstance(error, ft.InjectedFault | ft.InjectedExit):
        return {"cause": "injected", "error": reason}
    if isinstance(error, DataError):
        return {"cause": "data", "error": reason}
    if isinstance(error, MatexError | ft.FtError):
        return {"cause": "ended", "error": reason}
    cause = {"cause": "script", "error": reason}
    where = _where(error, script)
    return {**cause, "where": where} if where else cause


def _where(error: BaseException, script: Path | None) -> str:
    if isinstance(error, SyntaxError) and error.filename is not None:
        return f"{Path(error.filename).name}, line {error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    if script is not None:
        folder = _resolved(script).parent
        own = [f for f in frames if folder in _resolved(Path(f.filename)).parents]
        frames = traceback.StackSummary([f for f in own if "site-packages" not in f.filename])
    if not frames:
        return ""
    return f"{Path(frames[-1].filename).name}, line {frames[-1].lineno}"


def _resolved(path: Path) -> Path:
    """Absolute *path* without links, or *path* itself where the working directory is gone."""
    try:
        return path.resolve()
    except FileNotFoundError:
        return path


def advice(error: str) -> str:
    """Advice for the line of an error about files or ports; "" if there is none. Pure."""
    if "Address already in use" in error:
        return (
            "every rank runs the whole script: a port is free for one rank of a host alone, so "
            "open it on one rank (if matex.rank() == 0: ...), or open port 0"
        )
    name = error.partition(":")[0].rpartition(".")[2]
    if name not in _FILE_ERRORS and "File not found" not in error:  # Keras's ValueError
        return ""
    return (
        "every rank runs the whole script: what programs and libraries that it calls do to files "
        "belongs on one rank (if matex.rank() == 0: ...), before a fit, or under other names"
    )


def unasked(event: Event) -> list[int]:
    """Ranks that *event* reports as lost, without those that were asked to leave. Pure."""
    left = event.get("left", ())
    return [rank for rank in event["lost"] if rank not in left]


def ranks_left(events: Iterable[Event]) -> list[dict[str, Any]]:
    """Record of each rank that left on request, in order of time. Pure.

    ``rank`` (original), ``step`` before which it left, and ``request`` in words.
    """
    return [
        {"rank": rank, "step": event["step"], "request": event["request"]}
        for event in events
        if event["event"] == "resize"
        for rank in event["leaving"]
    ]


def ranks_lost(events: Iterable[Event]) -> list[dict[str, Any]]:
    """Record of each rank without which the others had to go on, in order of time. Pure.

    Ranks that were asked to leave are none of them: see :func:`ranks_left`.
    ``rank`` (original), ``step`` (None before the first), ``cause``: "script" for an exception of
    the script or its exit with a nonzero status, "data" for a file that this rank could not read,
    "injected", "evicted" for a rank that was too slow, "ended" for a rank that ended itself for
    another reason (no progress, cut off from the others), "signal" for a rank that reported
    nothing; and ``error``, the line that it gave for its end, or None.
    """
    records: list[dict[str, Any]] = []
    for _, start in starts_of(events):
        said = {e["rank"]: e for e in start if e["event"] == "death"}
        struck = {e["rank"]: e for e in start if e["event"] == "fault" and e["lethal"]}
        known: set[int] = set()
        for event in start:
            if event["event"] not in ("recovered", "spare-lost"):
                continue
            for rank in unasked(event):
                if rank not in known:
                    known.add(rank)
                    records.append(_record(rank, event, said.get(rank), struck.get(rank)))
    return records


def lost_to_own_errors(events: Iterable[Event]) -> bool:
    """Whether a rank was lost to an error of the script. Pure."""
    return any(record["cause"] in OWN_ERRORS for record in ranks_lost(events))


def _record(rank: int, lost: Event, said: Event | None, struck: Event | None) -> dict[str, Any]:
    if said is not None and said.get("cause", "ended") != "ended":
        cause, error = said["cause"], said["reason"]
    elif struck is not None:
        cause, error = "injected", str(struck["fault"])
    elif said is not None:
        cause, error = "ended", said["reason"]
    else:
        cause, error = "signal", None
    step = next((e["step"] for e in (said, struck) if e is not None), lost.get("step"))
    return {"rank": rank, "step": step, "cause": cause, "error": error}
