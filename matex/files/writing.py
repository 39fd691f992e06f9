"""Places of the script's writes, in the view of its rank."""

from __future__ import annotations

import contextlib
import errno
import os
import stat

from matex.files import real
from matex.files.held_files import copied
from matex.files.ledger import Change
from matex.files.view import FileView, missing

__all__ = ["check_folder", "may_write", "to_write"]


def to_write(
    view: FileView,
    path: str,
    change: Change,
    *,
    exclusive: bool = False,
    tree: bool = False,
    names: tuple[str, ...] = (),
) -> str:
    """Place to write for the script's *path*.

    Args:
        exclusive: whether no entry may exist there.
        tree: whether it is a folder, with files of unknown names.
        names: files that will exist there, if *path* is only the beginning of their names.

    Raises:
        OSError: as Python would.
    """
    if not tree and not names and not view.is_mirrored(path) and real.islink(path):
        with real.direct():
            path = os.path.realpath(path)
    if view.leads:
        if view.succession.not_repeated:
            check_folder(view, path)
        if exclusive and view.exists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        for name in names or (path,):
            if not (tree and real.isdir(name)):
                view.claim(name, change, tree=tree)
        if tree:
            view.changes.created.add(path)
        return path
    mirrored = view.is_mirrored(path)
    if view.knows_ranks and not mirrored and real.isdir(os.path.dirname(path)):
        return path
    there = view.place(path)
    exists = there is not None
    there = there if exists else view.found(path)
    if exclusive and exists:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
    if not mirrored:
        check_folder(view, path)
        if there is not None and not may_write(there if exists else os.path.dirname(path)):
            return there
        if exists and not _is_file(there) and not tree:
            assert there is not None
            return there  # a folder, which is the script's error, or a device
    if change == "replace":
        view.succession.kept_back.discard(path)
    place = view.own_place(path)
    if exists and change != "replace" and (not mirrored or path in view.changes.kept_open):
        aside = copied(view, path)
        if mirrored:
            real.replace(aside, place)
        else:
            with contextlib.suppress(FileExistsError):  # a process that the script forked was first
                real.link(aside, place)
            real.unlink(aside)
    elif path in view.changes.kept_open and mirrored:
        real.unlink(place)
    for name in names or (path,):
        view.count(name)
        view.changes.deleted.pop(name, None)
    if tree:
        view.changes.created.add(path)
    return place


def may_write(place: str) -> bool:
    """Whether this user may write there; if not the real call raises the error."""
    return not real.lexists(place) or real.access(place, os.W_OK)


def _is_file(place: str | None) -> bool:
    with contextlib.suppress(OSError):
        return place is not None and stat.S_ISREG(real.stat(place).st_mode)
    return True  # a link that leads nowhere


def check_folder(view: FileView, path: str) -> None:
    """See that *path* would be in a directory.

    Raises:
        FileNotFoundError, NotADirectoryError: as Python would.
    """
    folder = os.path.dirname(path)
    if not view.exists(folder):
        raise missing(path)
    if not view.isdir(folder):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
