"""What became of a run, from what its ranks left: one exit status, and lines that say why."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from matex.console import log_name
from matex.launcher.verdict import End, crash_in, root_cause, survived
from matex.persistence.leaving import STATUS
from matex.records import summary as summaries
from matex.records.events import EVENTS, Event, read_events
from matex.records.fault_records import AGAIN
from matex.records.losses import LOST_STRICTLY, advice
from matex.watch.pulse import read_sign

__all__ = ["all_events", "judge", "last_start", "reason_of"]

_FINISHED, _FAILED = 0, 1
_LOG_END = 64 << 10  # bytes


def all_events(report: Path) -> list[Event]:
    """What was written so far, in order of time."""
    path = report / EVENTS
    return read_events(path) if path.exists() else []


def last_start(events: Sequence[Event]) -> list[Event]:
    """The events since the ranks were started for the last time. Pure."""
    begun = [n for n, event in enumerate(events) if event["event"] in AGAIN]
    return list(events[begun[-1] + 1 :] if begun else events)


def reason_of(report: Path) -> str:
    """Why the ranks that were started last are all gone without a summary."""
    cause = root_cause(last_start(all_events(report)), _logs(report))
    if cause is not None:
        return str(cause)
    if any(event["event"] == "start" for event in last_start(all_events(report))):
        return "the last ranks were killed without a word (by the system, out of memory?)"
    return "the ranks did not start"


def judge(report: Path, reason: str, *, ranks: int, kept: bool) -> int:
    """The exit status; the last lines on the terminal say which ranks failed, and why.

    Where the ranks could not write a summary, write one for them.

    Args:
        reason: why there is none, where there is none.
        ranks: how many there were at first.
        kept: whether the report is.
    """
    every, logs = all_events(report), _logs(report)
    events = last_start(every)
    path = report / summaries.SUMMARY
    summary = json.loads(path.read_text()) if path.exists() else {"status": None}
    status = summary["status"]
    strictly = status == "failed" and summary["reason"] == LOST_STRICTLY
    if status == "failed" and not strictly:
        return _FAILED  # the ranks have said why, all alike
    cause = root_cause(events, logs) if status is None else None
    for end in survived(events, logs):
        if cause is None or end.reason != cause.reason:
            _print_line(f"went on without {end}{_advice(end)}{_where(report, end, kept=kept)}")
    if status == "stopped":
        return STATUS if summary["resumable"] else _FAILED
    if status is not None:
        return _FAILED if strictly else _FINISHED
    if cause is not None:
        crash = crash_in(logs.get(cause.rank, ""))
        if crash.startswith(cause.reason):
            print(crash, file=sys.stderr)  # its traceback, which only its log has
    step = read_sign(report).step
    summaries.failed(report, every, ranks=ranks, step=step, reason=reason)
    _print_line(f"failed: {reason}{_where(report, cause, kept=kept)}")
    return _FAILED


def _advice(end: End) -> str:
    """What else to say of the error of the script's own that ended a rank."""
    if not end.is_own:
        return ""
    instead = advice(end.reason)
    return f"; {instead}" if instead else ""


def _where(report: Path, end: End | None, *, kept: bool) -> str:
    if not kept:
        return "; --report DIR keeps every rank's log"
    return f"; see {report / log_name(end.rank) if end else report}"


def _logs(report: Path) -> dict[int, str]:
    """The end of each rank's log."""
    paths = report.glob("rank-[0-9]*.log")
    return {int(path.stem.removeprefix("rank-")): _end_of(path) for path in paths}


def _end_of(log: Path) -> str:
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _LOG_END))
        return file.read().decode(errors="replace")


def _print_line(line: str) -> None:
    print(f"matex: {line}", file=sys.stderr, flush=True)
