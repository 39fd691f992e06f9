"""What the ranks of keras_suite.py write, a JSON object a line, and what it says. Pure but for read.

A rank writes ``{"test"}`` when it begins a test, ``{"test", "outcome", "seconds", "reason"}`` when
the test is over, and ``{"end"}`` after the last: what hung or was lost is what was begun only.
"""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any, NamedTuple

_WIDTH = 300


class Outcome(NamedTuple):
    """How a test went on a rank: passed, failed, skipped, hung or lost (with its rank)."""

    outcome: str
    seconds: float
    reason: str


class Progress(NamedTuple):
    """How far a rank came: what it recorded, the test it is in, whether it saw the end."""

    done: dict[str, Outcome]
    running: str | None
    ended: bool


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


def read(path: Path) -> Progress:
    """The records in *path*; a line that is not whole yet is left out."""
    done: dict[str, Outcome] = {}
    running, ended = None, False
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    for line in text[: text.rfind("\n") + 1].splitlines():
        record = json.loads(line)
        ended = "end" in record
        if "outcome" in record:
            running = None
            done[record["test"]] = Outcome(record["outcome"], record["seconds"], record["reason"])
        elif not ended:
            running = record["test"]
    return Progress(done, running, ended)


def outcome_of(reports: list[Any]) -> tuple[str, str]:
    """The outcome of a test and its reason, from pytest's reports of its phases."""
    for outcome in ("failed", "skipped"):
        for report in reports:
            if getattr(report, outcome):
                return outcome, reason_of(report)
    return "passed", ""


def reason_of(report: Any) -> str:
    """Why a report is no "passed", in one line."""
    told = report.longrepr
    if isinstance(told, tuple):
        return _line(str(told[2]))
    crash = getattr(told, "reprcrash", None)
    return _line(str(told) if crash is None else crash.message)


def _line(text: str) -> str:
    return " ".join(text.split())[:_WIDTH]
