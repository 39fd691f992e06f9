"""Outputs of a rank: everything goes to its log, the leader's to the terminal as well."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, TextIO

__all__ = [
    "inherited",
    "is_own",
    "log_name",
    "muted",
    "own",
    "redirect",
    "write_printed",
    "write_to_log",
]


def log_name(rank: int) -> str:
    """File name of the log of original rank *rank*."""
    return f"rank-{rank:04d}.log"


class _Split(io.BufferedIOBase):
    """A stream of bytes that writes to a log and, while *leads()*, to the terminal.

    Bytes that a full disk does not take are missing from the log, and raise nothing. If the script
    replaces *descriptor* by a file, as for the output of C code, that file gets everything.

    Args:
        descriptor: file descriptor that also writes to the log; None without a log.
        log: the log, unbuffered; None for none.
        redirected: whether *terminal* is no real terminal, although it may look like one: mpiexec
            gives each rank a pseudo-terminal even if its own output is a file.
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
        """File descriptor for writers that use one: programs that the script starts, or C code."""
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


_own: dict[str, TextIO] = {}  # a script's own may differ, or be replaced
_first: list[TextIO | None] = []  # Python's own, which would close the terminal if deleted


def redirect(
    report: Path | None, rank: int, leads: Callable[[], bool], *, redirected: bool = False
) -> None:
    """Make this process write to its log in *report*; the leader also to the terminal.

    Output of native libraries goes to the log only. Without *report* only the leader's output is
    kept, and native output is not redirected.

    Args:
        report: directory of the logs.
        rank: original rank of this process.
        leads: function that returns whether this process is the leader.
        redirected: whether a seeming terminal is none.
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
    """Make *split* Python's stream *name*, also if a script restores the original one."""

    def text() -> TextIO:
        return io.TextIOWrapper(split, encoding="utf-8", errors=errors, line_buffering=True)

    _own[name] = text()
    stream = text()
    _first.extend((getattr(sys, name), getattr(sys, f"__{name}__")))
    setattr(sys, name, stream)
    setattr(sys, f"__{name}__", stream)


def own(name: str) -> TextIO:
    """Stream for lines of matex itself, whatever the script has replaced.

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


_mutes = 0


@contextlib.contextmanager
def muted() -> Iterator[None]:
    """Drop what operations of graphs print, on all threads of this process. Local."""
    global _mutes  # noqa: PLW0603 - operations print on threads of TensorFlow
    _mutes += 1
    try:
        yield
    finally:
        _mutes -= 1


def write_printed(text: str) -> None:
    """Write *text*, which an operation of a graph prints, where standard error goes.

    A script's own stream in its place does not get it, as it would not without matex.
    """
    if not _mutes:
        with contextlib.suppress(OSError, ValueError):  # the terminal is gone, or closed
            stream = own("stderr") if "stderr" in _own else sys.__stderr__
            print(text, end="", file=stream, flush=True)


def is_own(name: str) -> bool:
    """Whether the script's output goes to its original destination, not to one of its own."""
    return name not in _own or getattr(sys, name) is getattr(sys, f"__{name}__")


def inherited(name: str) -> int | None:
    """File descriptor for the stream *name* of programs that this process starts.

    None if it is this process's own, which programs inherit anyway.
    """
    if name not in _own:
        return None
    return _own[name].fileno()
