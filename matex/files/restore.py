"""Restoring of real files to their state before a dead leader changed them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable

from matex.files import real
from matex.files.ledger import Before

__all__ = ["put_back", "undo"]


def put_back(
    path: str, past: Before, aside: Callable[[str], str], is_new: Callable[[str], bool]
) -> None:
    """Restore *path* on the real file system.

    Args:
        path: path that was changed.
        past: former state.
        aside: function that names a file next to a path, to replace it.
        is_new: function that tells whether a path below did not exist before.
    """
    with real.direct():
        if real.lexists(path) and past.kind != "folder":
            undo(path, is_new, keep=past.kind == "file")
        if past.kind == "folder":
            if not real.isdir(path):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)
            os.makedirs(path, exist_ok=True)
        if past.kept is not None and real.lexists(past.kept):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            real.copy(past.kept, path, aside(path))
        if past.size is not None and real.lexists(path):
            os.truncate(path, past.size)


def undo(path: str, is_new: Callable[[str], bool], *, keep: bool) -> None:
    """Remove a dead leader's files at *path*, but not files that others put into it.

    Args:
        keep: whether a file there gets other content.
    """
    if real.isdir(path) and not real.islink(path):
        for name in real.names(path):
            below = os.path.join(path, name)
            if is_new(below):
                undo(below, is_new, keep=False)
        with contextlib.suppress(OSError):
            os.rmdir(path)
    elif not keep:
        os.unlink(path)
