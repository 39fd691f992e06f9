"""Lines of the launcher, which goes on when nobody can read them any more."""

from __future__ import annotations

import os
import select
import sys
from pathlib import Path
from typing import TextIO

__all__ = ["is_unread", "say", "say_in_handler", "show"]

_STDOUT = 1


def say(line: str, stream: TextIO | None = None) -> None:
    """Print *line* in the name of matex; see :func:`show`.

    Args:
        line: one line, without its end.
        stream: standard output, the default, or standard error.
    """
    show(f"matex: {line}", stream or sys.stdout)


def show(text: str, stream: TextIO) -> None:
    """Print *text* on *stream*.

    A terminal that was closed, or a pipe without a reader, is no reason to leave ranks alone: what
    is printed from then on is thrown away.
    """
    try:
        print(text, file=stream, flush=True)
    except OSError:
        _throw_away(stream.fileno())


def say_in_handler(line: str) -> None:
    """Print *line* in a signal's handler, whatever the interrupted code may be printing.

    Args:
        line: one line, without its end.
    """
    try:
        os.write(_STDOUT, f"matex: {line}\n".encode())
    except OSError:
        _throw_away(_STDOUT)


def is_unread(number: int) -> bool:
    """Whether file descriptor *number* is a pipe or socket without a reader."""
    poll = select.poll()
    poll.register(number, 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


def _throw_away(number: int) -> None:
    """Have what is written to file descriptor *number*, and what is buffered, thrown away."""
    with Path(os.devnull).open("wb") as null:
        os.dup2(null.fileno(), number)
