"""The outputs of programs that the script starts: on the terminal once, like the script's own.

A program inherits descriptors, and those of a rank lead to its log.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from multiprocessing import util
from typing import Any

from matex.records import console
from matex.replacing import replace

__all__ = ["install"]

_STREAMS = ("stdout", "stderr")
_SIGNAL_BITS = 8  # of a status of wait, below the status of the exit


def install() -> None:
    """Replace how Python starts programs, for the rest of the process. Local."""
    spawn = vars(util)["spawnv_passfds"]
    replace(subprocess.Popen, "__init__", _popen(subprocess.Popen.__init__))
    replace(os, "system", _system)
    replace(util, "spawnv_passfds", _inheriting(spawn))
    os.register_at_fork(after_in_child=_renew_lock)


def _popen(original: Callable[..., None]) -> Callable[..., None]:
    signature = inspect.signature(original)

    @functools.wraps(original)
    def init(*args: Any, **kwargs: Any) -> None:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError:
            original(*args, **kwargs)  # which raises the proper error
            return
        for name in _STREAMS:
            if bound.arguments.get(name) is None:
                bound.arguments[name] = console.inherited(name)
        original(*bound.args, **bound.kwargs)

    return init


def _system(command: str | bytes | os.PathLike[str] | os.PathLike[bytes]) -> int:
    """Substitute of ``os.system`` with a child process whose outputs can be chosen."""
    sys.audit("os.system", command)
    status = subprocess.call(os.fsdecode(command), shell=True)
    return -status if status < 0 else status << _SIGNAL_BITS


def _inheriting(original: Callable[..., int]) -> Callable[..., int]:
    """Start a program of multiprocessing with the file descriptors for child processes."""

    @functools.wraps(original)
    def spawnv_passfds(*args: Any, **kwargs: Any) -> int:
        with _inherited():
            return original(*args, **kwargs)

    return spawnv_passfds


_lock = threading.Lock()


def _renew_lock() -> None:
    global _lock  # noqa: PLW0603 - another thread of the parent may have had it
    _lock = threading.Lock()


@contextlib.contextmanager
def _inherited() -> Iterator[None]:
    """Context in which this process has the file descriptors for child processes."""
    with _lock, contextlib.ExitStack() as after:
        for number, name in enumerate(_STREAMS, 1):
            wanted = console.inherited(name)
            if wanted not in (None, number):
                kept = os.dup(number)
                after.callback(os.close, kept)
                after.callback(os.dup2, kept, number)
                os.dup2(wanted, number)
        yield
