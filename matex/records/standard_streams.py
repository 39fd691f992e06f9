"""Standard streams that the caller has closed, as a shell does by ``>&-``."""

from __future__ import annotations

import os
import sys

__all__ = ["open_closed_streams"]

_STREAMS = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))


def open_closed_streams() -> None:
    """Open streams that were closed when this process started, on the null device. Local.

    Their numbers are taken, too: the next files that are opened would get them, and what this
    process and its children print would go there.
    """
    taken = [_take(number) for number in range(len(_STREAMS))]
    for number, (name, mode) in enumerate(_STREAMS):
        if getattr(sys, name) is None:
            # A number that another file has already is that file's.
            file = number if taken[number] else os.open(os.devnull, os.O_RDWR)
            stream = os.fdopen(file, mode, encoding="utf-8", closefd=False)
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)


def _take(number: int) -> bool:
    """Whether the file descriptor *number* was closed; it is the null device then."""
    try:
        os.fstat(number)
    except OSError:
        opened = os.open(os.devnull, os.O_RDWR)
        if opened != number:
            os.dup2(opened, number)
            os.close(opened)
        os.set_inheritable(number, True)
        return True
    return False
