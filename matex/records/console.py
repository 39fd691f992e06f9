"""The outputs of a rank: everything goes to its log, the leader's to the terminal as well."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, TextIO

__all__ = ["inherited", "is_own", "log_name", "own", "redirect", "write_to_log"]


def log_name(rank: int) -> str:
    """File name of the log of original rank *rank*."""
    return f"rank-{rank:04d}.log"


class _Split(io.BufferedIOBase):
    """A stream of bytes that writes to a log and, while *leads()*, to the terminal.

    What a full disk does not take is missing from the log, and stops nothing. Where the script
    puts a file in the place of *descriptor*, as for what C prints, that file gets all.

    Args:
        descriptor: number of the descriptor at which the log is, too; None without a log.
        log: the log, not buffered; None for none.
        redirected: whether *terminal* is shown on none, although it may look like one: mpiexec
            gives each rank a pseudo-terminal, also where its own output is a file.
    """

    def __init__(
        self,
        name: str,
        terminal: IO[bytes],
        leads: Callable[[], bool],
        *,
        descriptor: int | None = None,
        log: IO[bytes] | None = None,
        redirected: bool = False,
    ) -> None:
        self.name = f"<{name}>"
        self._terminal = terminal
        self._leads = leads
        self._descriptor = descriptor
        self._log = log
        self._redirected = redirected

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        size = memoryview(data).nbytes
        if self._is_replaced():
            assert self._descriptor is not None
            with open(self._descriptor, "wb", closefd=False) as file:
                file.write(data)
            return size
        if self._log is not None:
            with contextlib.suppress(OSError):
                self._log.write(data)
        if self._leads():
            self._terminal.write(data)
            self._terminal.flush()
        return size

    def write_to_log(self, text: str) -> None:
        """Write *text* to the log alone, if there is one."""
        if self._log is not None:
            with contextlib.suppress(OSError):
                self._log.write(text.encode(errors="replace"))

    def isatty(self) -> bool:
        return not self._redirected and self._leads() and self._terminal.isatty()

    def fileno(self) -> int:
        """The descriptor for those who write by it: programs that the script starts, or C."""
        if self._is_replaced():
            assert self._descriptor is not None
            return self._descriptor
        if self._leads() or self._log is None:
            return self._terminal.fileno()
        return self._log.fileno()

    def close(self) -> None:
        """Close nothing: other objects still write at the end of the process."""

    def _is_replaced(self) -> bool:
        if self._descriptor is None or self._log is None:
            return False
        try:
            now = os.fstat(self._descriptor)
        except OSError:  # closed, as a daemon does
            return False
        log = os.fstat(self._log.fileno())
        return (now.st_dev, now.st_ino) != (log.st_dev, log.st_ino)


_own: dict[str, TextIO] = {}  # that of a script may be another one, or be replaced
_first: list[TextIO | None] = []  # Python's own, which would close the terminal when they go


def redirect(
    report: Path | None, rank: int, leads: Callable[[], bool], *, redirected: bool = False
) -> None:
    """Let this process write to its log in *report* from now on; the leader also to the terminal.

    What native libraries write goes to the log only. Without *report* only the
    leader's output is kept, and native output stays where it was.

    Args:
        report: directory of the logs.
        rank: original rank of this process.
        leads: function that says whether this process is the leader.
        redirected: whether what looks like a terminal is shown on none.
    """
    if report is None:
        stream = sys.__stdout__ or sys.stdout
        _install(
            "stdout", _Split("stdout", stream.buffer, leads, redirected=redirected), stream.errors
        )
        return
    for descriptor, name in ((1, "stdout"), (2, "stderr")):
        terminal = os.fdopen(os.dup(descriptor), "wb")
        opened = os.open(report / log_name(rank), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        os.dup2(opened, descriptor)
        log = os.fdopen(opened, "wb", buffering=0)
        split = _Split(name, terminal, leads, descriptor=descriptor, log=log, redirected=redirected)
        _install(name, split, getattr(sys, name).errors)


def _install(name: str, split: _Split, errors: str | None) -> None:
    """Make *split* what Python calls *name*, also where a script goes back to what it was first."""

    def text() -> TextIO:
        return io.TextIOWrapper(split, encoding="utf-8", errors=errors, line_buffering=True)

    _own[name] = text()
    stream = text()
    _first.extend((getattr(sys, name), getattr(sys, f"__{name}__")))
    setattr(sys, name, stream)
    setattr(sys, f"__{name}__", stream)


def own(name: str) -> TextIO:
    """The stream for lines of matex itself, whatever the script has made of its own.

    Args:
        name: ``stdout`` or ``stderr``.
    """
    stream: TextIO = getattr(sys, name)
    if name not in _own:
        return stream
    if is_own(name):
        stream.flush()  # so that lines come in order
    return _own[name]


def write_to_log(text: str) -> None:
    """Write *text* to the log of this process alone, if it has one."""
    if "stderr" in _own:
        own("stderr").flush()
        split = _own["stderr"].buffer
        assert isinstance(split, _Split)
        split.write_to_log(text)


def is_own(name: str) -> bool:
    """Whether what the script prints goes where it went at first, and to nothing of its own."""
    return name not in _own or getattr(sys, name) is getattr(sys, f"__{name}__")


def inherited(name: str) -> int | None:
    """The descriptor that a program which this process starts is to have as its stream *name*.

    None where it is this process's own, which programs have anyway.
    """
    if name not in _own:
        return None
    return _own[name].fileno()
