"""``shutil.rmtree`` on a rank that does not lead, at once for the whole tree.

File by file it would collide with the leader, which removes the same tree at the same time.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
from collections.abc import Iterator
from typing import Any

from matex.files import real
from matex.files.interface import Files
from matex.files.scratch import ALIAS
from matex.files.view import FileView
from matex.replacing import replace

__all__ = ["install"]


def install(files: Files) -> None:
    """Replace Python's function, for the rest of the process. Local."""
    original: Any = shutil.rmtree

    @functools.wraps(original)
    def rmtree(path: Any, *args: Any, **kwargs: Any) -> None:
        view = None if kwargs.get("dir_fd") is not None else files.view()
        known = None if view is None else files.path(path, follow=False)
        if view is None or known is None or not _is_its_own(view, known):
            original(path, *args, **kwargs)
        else:
            _remove(view, known)

    replace(shutil, "rmtree", rmtree)


def _is_its_own(view: FileView, path: str) -> bool:
    """Whether *path* is a folder that only this rank sees otherwise; else Python's says why not."""
    if view.leads or view.knows_ranks:
        return False
    place = view.found(path)
    if place is None or not real.isdir(place) or real.islink(place):
        return False
    return os.access(os.path.dirname(path), os.W_OK)


def _remove(view: FileView, path: str) -> None:
    below = {path, *_below(path)}
    if view.ledger is not None:
        below.update(name for name in view.ledger.paths() if name.startswith(f"{path}/"))
    with real.direct():
        if view.is_mirrored(path):
            below.update(name.removeprefix(ALIAS) for name in _below(ALIAS + path))
            shutil.rmtree(ALIAS + path, ignore_errors=True)
    for name in below:
        view.hide(name)


def _below(path: str) -> Iterator[str]:
    """All that is really in the folder *path*, of which the leader may remove some meanwhile."""
    for name in real.names(path):
        below = f"{path}/{name}"
        yield below
        if real.isdir(below) and not real.islink(below):
            with contextlib.suppress(OSError):
                yield from _below(below)
