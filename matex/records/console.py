"""The outputs of a rank: everything goes to its log, the leader's to the terminal as well."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

__all__ = ["log_name", "redirect"]


def log_name(rank: int) -> str:
    """File name of the log of original rank *rank*."""
    return f"rank-{rank:04d}.log"


class _Split(io.TextIOBase):
    """A text stream that writes to a log and, while *leads()*, to the terminal.

    What a full disk does not take is missing from the log, and stops nothing.
    """

    def __init__(self, log: TextIO | None, terminal: TextIO, leads: Callable[[], bool]) -> None:
        self._log = log
        self._terminal = terminal
        self._leads = leads

    def write(self, text: str) -> int:
        if self._log is not None:
            with contextlib.suppress(OSError):
                self._log.write(text)
        if self._leads():
            self._terminal.write(text)
        return len(text)

    def flush(self) -> None:
        if self._log is not None:
            with contextlib.suppress(OSError):
                self._log.flush()
        if self._leads():
            self._terminal.flush()

    def isatty(self) -> bool:
        return self._leads() and self._terminal.isatty()

    def fileno(self) -> int:
        return (self._terminal if self._log is None else self._log).fileno()

    def writable(self) -> bool:
        return True

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return "utf-8"


def redirect(report: Path | None, rank: int, leads: Callable[[], bool]) -> None:
    """Let this process write to its log in *report* from now on; the leader also to the terminal.

    What native libraries write goes to the log only. Without *report* only the
    leader's output is kept, and native output stays where it was.
    """
    if report is None:
        sys.stdout = _Split(None, sys.__stdout__ or sys.stdout, leads)
        return
    for descriptor, name in ((1, "stdout"), (2, "stderr")):
        terminal = os.fdopen(os.dup(descriptor), "w", buffering=1, encoding="utf-8")
        log = os.open(report / log_name(rank), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        os.dup2(log, descriptor)
        os.close(log)
        stream = os.fdopen(os.dup(descriptor), "w", buffering=1, encoding="utf-8")
        setattr(sys, name, _Split(stream, terminal, leads))
