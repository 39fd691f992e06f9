"""The records of the ranks of the Keras suite, a JSON object a line, and their outcomes.

A rank writes ``{"test"}`` when it begins a test, ``{"test", "outcome", "seconds", "reason"}`` when
the test is over, and ``{"end"}`` after the last. A test that only began hung or was lost.
"""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any, NamedTuple

_WIDTH = 300


class Outcome(NamedTuple):
    """The outcome of a test on a rank: passed, failed, skipped, hung or lost (with its rank)."""

    outcome: str
    seconds: float
    reason: str


class Records:
    """The records of one rank, read as they are written.

    ``done`` are the tests that are over, ``running`` is the one that the rank is in, and ``ended``
    whether it is past the last.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0
        self.done: dict[str, Outcome] = {}
        self.running: str | None = None
        self.ended = False

    def read(self) -> bool:
        """Take in what was written since; whether that was anything. Half a line is left."""
        if not self._path.exists():
            return False
        with self._path.open("rb") as file:
            file.seek(self._read)
            new = file.read()
        new = new[: new.rfind(b"\n") + 1]
        self._read += len(new)
        for line in new.splitlines():
            self._take(json.loads(line))
        return bool(new)

    def _take(self, record: dict[str, Any]) -> None:
        if "end" in record:
            self.ended = True
        elif "outcome" in record:
            self.running = None
            outcome = Outcome(record["outcome"], record["seconds"], record["reason"])
            self.done[record["test"]] = outcome
        else:
            self.running = record["test"]


class Seeds:
    """Numbers that follow from a name, one after the other."""

    def __init__(self, name: str) -> None:
        self._last = zlib.crc32(name.encode())

    def next(self) -> int:
        self._last = (self._last * 1103515245 + 12345) % 2**31
        return self._last


def file_of(rank: int) -> str:
    """Name of the file of a rank's records."""
    return f"records-{rank:04d}.jsonl"


def outcome_of(reports: list[Any]) -> tuple[str, str]:
    """The outcome of a test and its reason, from pytest's reports of its phases."""
    for outcome in ("failed", "skipped"):
        for report in reports:
            if getattr(report, outcome):
                return outcome, reason_of(report)
    return "passed", ""


def reason_of(report: Any) -> str:
    """Why a report is no "passed", in one line."""
    reason = report.longrepr
    if isinstance(reason, tuple):
        return _line(str(reason[2]))
    crash = getattr(reason, "reprcrash", None)
    return _line(str(reason) if crash is None else crash.message)


def _line(text: str) -> str:
    return " ".join(text.split())[:_WIDTH]
