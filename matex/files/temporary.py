"""Temporary files, whose names are unique to a rank, and directories, whose names are common.

A file in a script's temporary directory may be written by a callback on the leader and read by
every rank: its name is part of the script's work, like any other. It follows from the run, from the
place in the script that asks for it and from the count of its earlier requests, so ranks need not
communicate, and requests of the leader's callbacks change no other name.
"""

from __future__ import annotations

import functools
import hashlib
import os
import tempfile
from collections import Counter
from collections.abc import Callable
from multiprocessing import util
from typing import Any

from matex.files import real
from matex.files.called_from import called_from
from matex.files.interface import Files
from matex.files.scratch import ALIAS
from matex.replacing import replace

__all__ = ["install"]


def install(files: Files) -> None:
    """Replace Python's functions, for the rest of the process. Local."""
    for name in ("mkstemp", "NamedTemporaryFile", "TemporaryFile"):
        replace(tempfile, name, _own(files, getattr(tempfile, name)))
    replace(tempfile, "mkdtemp", _common(files, tempfile.mkdtemp))
    replace(util, "get_temp_dir", _of_processes(files, util.get_temp_dir))


def _own(files: Files, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        folder = kwargs.get("dir")
        view = files.view()
        path = None if folder is None or view is None else files.path(folder)
        if path is not None and view is not None and view.is_mirrored(path):
            kwargs["dir"] = ALIAS + path
        with real.direct():
            made = original(*args, **kwargs)
        name = made[1] if isinstance(made, tuple) else getattr(made, "name", made)
        if isinstance(name, str | bytes):
            files.temporary(os.fsdecode(name))
        return made

    return call


def _of_processes(files: Files, original: Callable[[], str]) -> Callable[[], str]:
    """The directory for sockets of Python's processes, which the system makes and no view knows."""

    @functools.wraps(original)
    def get_temp_dir() -> str:
        with real.direct():
            folder = original()
        files.temporary(folder)
        return folder

    return get_temp_dir


def _common(files: Files, original: Callable[..., str]) -> Callable[..., str]:
    asked: Counter[str] = Counter()

    @functools.wraps(original)
    def mkdtemp(suffix: Any = None, prefix: Any = None, dir: Any = None) -> Any:
        if any(isinstance(part, bytes) for part in (suffix, prefix, dir)):
            return original(suffix, prefix, dir)
        place = called_from()
        folder = os.path.abspath(tempfile.gettempdir() if dir is None else dir)
        while True:
            asked[place] += 1
            text = f"{files.run} {place} {asked[place]}"
            token = hashlib.blake2b(text.encode(), digest_size=6).hexdigest()
            path = os.path.join(
                folder, f"{prefix or tempfile.gettempprefix()}{token}{suffix or ''}"
            )
            try:
                os.mkdir(path, 0o700)
            except FileExistsError:  # of a rank whose files are the real ones, too
                continue
            return path

    return mkdtemp
