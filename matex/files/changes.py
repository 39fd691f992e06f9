"""The script's changes to files, made in its rank's view.

Each function takes absolute paths and, for a change that the leader makes directly to the real file
system, the Python function that makes it. The other ranks make the same change in their own trees.
Exceptions are those that the script would get if its rank ran alone.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Callable
from typing import Any

from matex.files import real
from matex.files.held_files import copied, copy_in
from matex.files.scratch import ALIAS
from matex.files.view import FileView, missing
from matex.files.writing import check_folder, may_write, to_write

__all__ = [
    "change_folder",
    "link",
    "make_folder",
    "make_pipe",
    "of_attributes",
    "remove",
    "remove_folder",
    "rename",
    "symlink",
]

Call = Callable[..., Any]


def make_folder(view: FileView, path: str, call: Call) -> None:
    if view.knows_ranks and real.isdir(os.path.dirname(path)):
        call(path)
        return
    exists = view.exists(path)
    if view.leads:
        if exists and not real.lexists(path):  # as it was before a dead leader's change
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        if not exists:
            if view.succession.not_repeated:
                check_folder(view, path)
            view.claim(path, "replace")
            view.changes.created.add(path)
            if real.isdir(path):  # made by a dead leader, which was ahead
                return
        call(path)
        return
    if exists and (view.ledger is not None or view.is_mirrored(path)):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
    check_folder(view, path)
    if not may_write(os.path.dirname(path)):
        call(path)
        return
    with contextlib.suppress(FileExistsError):
        real.mkdir(view.own_place(path))
    view.count(path)
    view.changes.created.add(path)
    view.changes.deleted.pop(path, None)


def make_pipe(view: FileView, path: str, call: Call) -> None:
    """Make a named pipe, between processes of one rank."""
    if view.exists(path):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
    if view.leads:
        view.claim(path, "replace")
        call(path)
        return
    check_folder(view, path)
    call(view.own_place(path))
    view.count(path)
    view.changes.deleted.pop(path, None)


def remove(view: FileView, path: str, call: Call) -> None:
    """A file or a symbolic link."""
    mirrored = view.is_mirrored(path)
    if view.leads:
        view.claim(path, "replace")
        view.changes.links.pop(path, None)
        call(path)
        return
    if view.knows_ranks and not mirrored:
        call(path)
        return
    place = view.place(path)
    if place is None:
        raise missing(path)
    if real.isdir(place) and not real.islink(place):
        call(place)  # which says that it is a folder
        return
    if not mirrored and not may_write(os.path.dirname(place)):
        call(place)
        return
    if mirrored:
        real.unlink(place)
    view.hide(path)


def remove_folder(view: FileView, path: str, call: Call) -> None:
    if view.knows_ranks and not view.is_mirrored(path):
        call(path)
        return
    left = view.names(path)
    if left:
        raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)
    if view.leads:
        view.claim(path, "replace")
        view.changes.created.discard(path)
        if real.names(path) and view.succession.not_repeated:  # of a dead leader, which was ahead
            with real.direct():
                shutil.rmtree(path)
        else:
            call(path)
        return
    if view.is_mirrored(path):  # now: to look into a folder that is gone may have made it again
        with real.direct():
            shutil.rmtree(ALIAS + path)
    view.hide(path)


def rename(view: FileView, source: str, target: str, call: Call) -> None:
    """``os.replace``, which on POSIX is ``os.rename``."""
    if view.knows_ranks and not view.is_mirrored(source):
        call(source, target)
        return
    if not view.exists(source):
        raise missing(source)
    if source == target:
        return
    check_folder(view, target)
    folder = view.isdir(source)
    if folder and view.exists(target):
        if not view.isdir(target):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), source)
        if view.names(target):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), source)
    elif view.isdir(target):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), source)
    moved = list(view.walk(source))
    if view.leads:
        for path in moved:
            view.claim(path, "move")
            view.claim(target + path[len(source) :], "replace")
        if source in view.changes.created:
            view.changes.created.discard(source)
            view.changes.created.add(target)
        if folder and view.succession.not_repeated:
            _drop_unseen(view, source)
        call(source, target)
        return
    for path in moved:
        copy_in(view, path)
    if view.isdir(target) and view.is_mirrored(target):
        with real.direct():
            shutil.rmtree(ALIAS + target)
    real.replace(ALIAS + source, view.own_place(target))
    was_made = source in view.changes.created
    for path in moved:
        new = target + path[len(source) :]
        view.count(new)
        view.changes.deleted.pop(new, None)
        if path in view.changes.kept_open:
            view.changes.kept_open[new] = view.changes.kept_open.pop(path)
        if path in view.changes.links:
            view.changes.links[new] = view.changes.links.pop(path)
        view.hide(path)
    view.forget_folders()
    if was_made:
        view.changes.created.add(target)


def _drop_unseen(view: FileView, folder: str) -> None:
    """Remove files of a dead leader in *folder* that this rank does not see there."""
    for name in real.names(folder):
        below = os.path.join(folder, name)
        if view.found(below) is None:
            with real.direct():
                view.undo(below, keep=False)
        elif real.isdir(below) and not real.islink(below):
            _drop_unseen(view, below)


def symlink(view: FileView, target: str, path: str, call: Call) -> None:
    if view.leads:
        view.claim(path, "replace")
        call(target, path)
        view.forget_folders()
        return
    if view.knows_ranks and real.isdir(os.path.dirname(path)):
        call(target, path)
        return
    if view.exists(path):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
    check_folder(view, path)
    real.symlink(target, view.own_place(path))
    view.changes.links[path] = view.canonical(
        os.path.normpath(os.path.join(os.path.dirname(path), target))
    )
    view.count(path)
    view.changes.deleted.pop(path, None)
    view.forget_folders()


def link(view: FileView, source: str, target: str, call: Call) -> None:
    """A second name; elsewhere than on the leader a copy."""
    if view.leads:
        view.claim(target, "replace")
        call(source, target)
        return
    if not view.exists(source):
        raise missing(source)
    if view.exists(target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), source)
    real.replace(copied(view, source), to_write(view, target, "replace"))


def of_attributes(view: FileView, path: str) -> str | None:
    """Path whose mode or times change; None if only the leader changes the real file."""
    if view.leads or (view.knows_ranks and not view.is_mirrored(path)):
        return path
    there = view.place(path)
    if there is None:
        raise missing(path)
    return None if there == path or path in view.changes.kept_open else there


def change_folder(view: FileView, path: str, call: Call) -> None:
    there = view.found(path)
    if there is None:
        raise missing(path)
    call(there)
    view.entered = path
    view.folder = None if there == path else path
