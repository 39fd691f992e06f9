"""Output of a command that nobody reads any more, as after ``| head -1``."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

from matex.launcher.lines import is_unread

__all__ = ["quiet_when_unread"]

_STDOUT, _STDERR = 1, 2


@contextlib.contextmanager
def quiet_when_unread() -> Iterator[None]:
    """Context that ends this program without a word when the reader of its output has gone.

    Raises:
        SystemExit: the status of a program that SIGPIPE has ended.
    """
    try:
        try:
            yield
        finally:
            sys.stdout.flush()  # else at the end of Python, which says what it meets
    except BrokenPipeError:
        unread = [number for number in (_STDOUT, _STDERR) if is_unread(number)]
        if not unread:
            raise  # another pipe
        with Path(os.devnull).open("wb") as null:
            for number in unread:
                os.dup2(null.fileno(), number)  # for what is still buffered
        sys.exit(128 + signal.SIGPIPE)
