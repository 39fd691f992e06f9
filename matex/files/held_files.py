"""Files in a rank's own tree: copied into it, or kept open under a new name."""

from __future__ import annotations

import contextlib
import os
import shutil

from matex.files import real
from matex.files.scratch import ALIAS
from matex.files.view import FileView, missing

__all__ = ["copied", "copy_in", "hold", "keep_whole", "release", "see_real"]

_SMALL = 1 << 20  # bytes; larger files are kept open under a new name rather than copied


def copy_in(view: FileView, path: str) -> None:
    """Copy *path* into this rank's own tree, as it is."""
    if view.is_mirrored(path):
        return
    there = view.place(path)
    if there is None:
        raise missing(path)
    place = view.own_place(path)
    if real.islink(there):
        real.symlink(real.readlink(there), place)
    elif real.isdir(there):
        real.mkdir(place)
    elif real.stat(there).st_size < _SMALL:
        real.replace(copied(view, path), place)
    else:
        hold(view, path, there)


def copied(view: FileView, path: str) -> str:
    """A new file outside of the tree with the content of *path*."""
    aside = view.scratch.new_name()
    view.at(path, lambda there: real.copy(there, aside))
    return aside


def hold(view: FileView, path: str, there: str) -> bool:
    """Keep the file *there* open as *path* in this rank's own tree; return whether it worked."""
    try:
        with real.direct():
            descriptor = os.open(there, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    place = view.own_place(path)
    with contextlib.suppress(FileNotFoundError):
        real.unlink(place)
    real.symlink(f"/proc/self/fd/{descriptor}", place)
    release(view, path)
    view.changes.kept_open[path] = descriptor
    return True


def keep_whole(view: FileView, path: str) -> None:
    """Copy *path* into this rank's own tree, if it is only kept open there.

    HDF5 asks for the real name of what it opens, and a file that was removed meanwhile has none.
    """
    if path in view.changes.kept_open:
        real.replace(copied(view, path), view.own_place(path))
        release(view, path)


def see_real(view: FileView, path: str) -> None:
    """Drop this rank's own file *path* for the real one, which was changed for all ranks."""
    if view.is_mirrored(path):
        with real.direct():
            if not real.isdir(ALIAS + path) or real.islink(ALIAS + path):
                os.unlink(ALIAS + path)
            elif not real.isdir(path):
                shutil.rmtree(ALIAS + path)
    release(view, path)
    view.changes.deleted.pop(path, None)
    view.count(path)


def release(view: FileView, path: str) -> None:
    descriptor = view.changes.kept_open.pop(path, None)
    if descriptor is not None:
        os.close(descriptor)
