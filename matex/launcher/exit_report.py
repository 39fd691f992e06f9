"""The end of a run, from the files of its ranks: an exit status, and lines with the reason."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from matex.launcher.lines import is_unread, say, show
from matex.launcher.root_cause import End, crash_in, root_cause, survived
from matex.preemption.exits import STATUS
from matex.records import summary as summaries
from matex.records.console import log_name
from matex.records.events import EVENTS, Event, read_events
from matex.records.launcher_protocol.heartbeat_file import read_sign
from matex.records.lost_ranks import LOST_STRICTLY, advice
from matex.records.rank_files import files_of_ranks
from matex.records.starts import starts_of
from matex.report.trace import TRACE, write_trace

__all__ = [
    "NOT_MET",
    "NOT_STARTED",
    "Logs",
    "all_events",
    "exit_status",
    "killed_silently",
    "last_start",
    "reason_of",
    "this_job",
]

NOT_STARTED = "the ranks did not start"
NOT_MET = "the ranks had not met yet"
_FINISHED, _FAILED = 0, 1
_LOG_END = 64 << 10  # bytes
# Signals by which a program ends through faults of its own; others are sent to it.
_CRASHES = {signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE}


class Logs:
    """The logs of the ranks in *report*, from the newest start on."""

    def __init__(self, report: Path) -> None:
        self._report = report
        self._begun: dict[Path, int] = {}

    def begin(self) -> None:
        """Note the sizes of the logs before the ranks start: earlier content is of other ranks."""
        self._begun = {path: path.stat().st_size for path in self._paths().values()}

    def ends(self) -> dict[int, str]:
        """The end of each rank's log."""
        return {rank: self._end_of(path) for rank, path in self._paths().items()}

    def _paths(self) -> dict[int, Path]:
        return files_of_ranks(self._report, ".log")

    def _end_of(self, log: Path) -> str:
        with log.open("rb") as file:
            file.seek(max(self._begun.get(log, 0), log.stat().st_size - _LOG_END))
            return file.read().decode(errors="replace")


def all_events(report: Path) -> list[Event]:
    """Events that were written so far, in order of time."""
    path = report / EVENTS
    return read_events(path) if path.exists() else []


def last_start(events: Sequence[Event]) -> list[Event]:
    """The events since the ranks were started for the last time. Pure."""
    return starts_of(events)[-1].events


def this_job(events: Sequence[Event]) -> list[Event]:
    """The events since this run was started, or continued by another job, for the last time."""
    begun = [n for n, event in enumerate(events) if event["event"] == "continued"]
    return list(events[begun[-1] + 1 :] if begun else events)


def reason_of(report: Path, logs: Logs, *, status: int | None) -> str | None:
    """Reason for which the last started ranks ended without a summary; None if unknown.

    Args:
        status: mpiexec's own.
    """
    events = last_start(all_events(report))
    cause = root_cause(events, logs.ends())
    if cause is not None:
        return str(cause)
    if status is not None and status < 0:
        number = signal.Signals(-status)
        return f"mpiexec {'crashed' if number in _CRASHES else 'was killed'} ({number.name})"
    if any(event["event"] == "start" for event in events):
        return None
    return NOT_STARTED


def killed_silently(*, several: bool) -> str:
    """Reason for the end of ranks that nobody told of. Local.

    Args:
        several: whether they were on several hosts.
    """
    if is_unread(sys.stdout.fileno()):
        return "mpiexec ended itself, because nobody reads the output of matex run any more"
    killed = "the last ranks were killed without a word (by the system, out of memory?)"
    if several:
        return f"{killed}, or mpiexec ended them, as it does when its daemon on a host has ended"
    return killed


def exit_status(report: Path, reason: str, logs: Logs, *, ranks: int, kept: bool) -> int:
    """The exit status; the last lines on the terminal say which ranks failed, and why.

    Where the ranks could not write a summary, write one for them.

    Args:
        reason: reason for the missing summary, used if there is none.
        ranks: number of ranks at the start.
        kept: whether the report is kept.
    """
    every, ends = all_events(report), logs.ends()
    events = last_start(every)
    path = report / summaries.SUMMARY
    summary = json.loads(path.read_text()) if path.exists() else {"status": None}
    status = summary["status"]
    strictly = status == "failed" and summary["reason"] == LOST_STRICTLY
    if status == "failed" and not strictly:
        return _FAILED  # the ranks have said why, all alike
    cause = root_cause(events, ends) if status is None else None
    for end in survived(events, ends):
        if cause is None or end.reason != cause.reason:
            say(f"went on without {end}{_advice(end)}{_where(report, end, kept=kept)}", sys.stderr)
    if status == "stopped":
        say(f"{summary['reason']}")
        return STATUS if summary["resumable"] else _FAILED
    if status is not None:
        return _FAILED if strictly else _FINISHED
    if cause is not None:
        crash = crash_in(ends.get(cause.rank, ""))
        if crash.startswith(cause.reason):
            show(crash, sys.stderr)  # its traceback, which only its log has
    step = read_sign(report).step
    try:
        write_trace(report, every)
    except OSError as error:
        say(f"{report / TRACE} cannot be written: {error.strerror}", sys.stderr)
    if summaries.unwritten(report, every, ranks=ranks, step=step, reason=reason) == "stopped":
        say(f"{reason}{_where(report, None, kept=kept)}", sys.stderr)
        return STATUS
    say(f"failed: {reason}{_where(report, cause, kept=kept)}", sys.stderr)
    return _FAILED


def _advice(end: End) -> str:
    """Advice on the script error that ended a rank, to be appended to a line; "" if none."""
    if not end.is_own:
        return ""
    instead = advice(end.reason)
    return f"; {instead}" if instead else ""


def _where(report: Path, end: End | None, *, kept: bool) -> str:
    if not kept:
        return "; --report DIR keeps every rank's log"
    return f"; see {report / log_name(end.rank) if end else report}"
