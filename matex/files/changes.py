"""What the script does to files, done in the view of its rank.

Each function takes absolute paths and, where something is done to the real file system at once,
the function of Python's that does it. On the leader that is what happens; elsewhere the same is
done in the rank's own tree. Errors are those that the script would meet if its rank ran alone.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Callable
from typing import Any

from matex.files import real
from matex.files.ledger import Change
from matex.files.scratch import ALIAS
from matex.files.view import FileView, missing

__all__ = [
    "change_folder",
    "link",
    "make_folder",
    "of_attributes",
    "remove",
    "remove_folder",
    "rename",
    "symlink",
    "to_write",
]

_SMALL = 1 << 20  # bytes; larger files are kept open under a new name rather than copied

Call = Callable[..., Any]


def to_write(
    view: FileView,
    path: str,
    change: Change,
    *,
    exclusive: bool = False,
    tree: bool = False,
    names: tuple[str, ...] = (),
) -> str:
    """The place to which to write what the script writes to *path*.

    Args:
        exclusive: nothing may be there.
        tree: a folder, of whose files nobody knows the names before.
        names: the files that will be there, where *path* is only how their names begin.

    Raises:
        OSError: as Python would.
    """
    if not tree and not names and not view.is_mirrored(path) and real.islink(path):
        with real.passing():
            path = os.path.realpath(path)
    if view.leads:
        if view.ahead:
            _check_folder(view, path)
        if exclusive and view.exists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        for name in names or (path,):
            if not (tree and real.isdir(name)):
                view.claim(name, change, tree=tree)
        if tree:
            view.made.add(path)
        return path
    mirrored = view.is_mirrored(path)
    if view.knows_ranks and not mirrored and real.isdir(os.path.dirname(path)):
        return path
    there, exists = view.found(path), view.exists(path)
    if exclusive and exists:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
    if not mirrored:
        _check_folder(view, path)
        if there is not None and not _may_write(there if exists else os.path.dirname(path)):
            return there
        if exists and not _is_file(there) and not tree:
            assert there is not None
            return there  # a folder, which is the script's error, or a device
    place = view.own_place(path)
    if exists and change != "replace" and (not mirrored or path in view.held):
        real.replace(_copied(view, path), place)
    elif path in view.held and mirrored:
        real.unlink(place)
    for name in names or (path,):
        view.count(name)
        view.gone.pop(name, None)
    if tree:
        view.made.add(path)
    return place


def _may_write(place: str) -> bool:
    """Whether this user may; else the real call is made, and says why not."""
    return not real.lexists(place) or real.access(place, os.W_OK)


def _is_file(place: str | None) -> bool:
    with contextlib.suppress(OSError):
        return place is not None and stat.S_ISREG(real.stat(place).st_mode)
    return True  # a link that leads nowhere


def _check_folder(view: FileView, path: str) -> None:
    folder = os.path.dirname(path)
    if not view.exists(folder):
        raise missing(path)
    if not view.isdir(folder):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)


def make_folder(view: FileView, path: str, call: Call) -> None:
    if view.knows_ranks and real.isdir(os.path.dirname(path)):
        call(path)
        return
    exists = view.exists(path)
    if view.leads:
        if exists and not real.lexists(path):  # as it was before a leader that is gone
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        if not exists:
            if view.ahead:
                _check_folder(view, path)
            view.claim(path, "replace")
            view.made.add(path)
            if real.isdir(path):  # made by a leader that is gone, which was ahead
                return
        call(path)
        return
    if exists and (view.ledger is not None or view.is_mirrored(path)):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
    _check_folder(view, path)
    if not _may_write(os.path.dirname(path)):
        call(path)
        return
    with contextlib.suppress(FileExistsError):
        real.mkdir(view.own_place(path))
    view.count(path)
    view.made.add(path)
    view.gone.pop(path, None)


def remove(view: FileView, path: str, call: Call) -> None:
    """A file or a symbolic link."""
    mirrored = view.is_mirrored(path)
    if view.leads:
        view.claim(path, "replace")
        view.links.pop(path, None)
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
    if not mirrored and not _may_write(os.path.dirname(place)):
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
        view.made.discard(path)
        if real.names(path) and view.ahead:  # of a leader that is gone, which was ahead
            with real.passing():
                shutil.rmtree(path)
        else:
            call(path)
        return
    if view.is_mirrored(path):  # now: to look into a folder that is gone may have made it again
        with real.passing():
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
    _check_folder(view, target)
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
        if source in view.made:
            view.made.discard(source)
            view.made.add(target)
        call(source, target)
        return
    for path in moved:
        _bring(view, path)
    if view.isdir(target) and view.is_mirrored(target):
        with real.passing():
            shutil.rmtree(ALIAS + target)
    real.replace(ALIAS + source, view.own_place(target))
    was_made = source in view.made
    for path in moved:
        new = target + path[len(source) :]
        view.count(new)
        view.gone.pop(new, None)
        if path in view.held:
            view.held[new] = view.held.pop(path)
        if path in view.links:
            view.links[new] = view.links.pop(path)
        view.hide(path)
    view.forget_folders()
    if was_made:
        view.made.add(target)


def _bring(view: FileView, path: str) -> None:
    """Have *path* in this rank's own tree, as it is."""
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
        real.replace(_copied(view, path), place)
    else:
        hold(view, path, there)


def _copied(view: FileView, path: str) -> str:
    """A new file outside of the tree with the content of *path*."""
    aside = view.scratch.new_name()
    view.at(path, lambda there: real.copy(there, aside))
    return aside


def hold(view: FileView, path: str, there: str) -> bool:
    """Keep the file *there* open, and have it as *path* in this rank's own tree; whether it is."""
    try:
        with real.passing():
            descriptor = os.open(there, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    place = view.own_place(path)
    with contextlib.suppress(FileNotFoundError):
        real.unlink(place)
    real.symlink(f"/proc/self/fd/{descriptor}", place)
    release(view, path)
    view.held[path] = descriptor
    return True


def release(view: FileView, path: str) -> None:
    descriptor = view.held.pop(path, None)
    if descriptor is not None:
        os.close(descriptor)


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
    _check_folder(view, path)
    real.symlink(target, view.own_place(path))
    view.links[path] = view.canonical(os.path.normpath(os.path.join(os.path.dirname(path), target)))
    view.count(path)
    view.gone.pop(path, None)
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
    real.replace(_copied(view, source), to_write(view, target, "replace"))


def of_attributes(view: FileView, path: str) -> str | None:
    """Whose mode or times the script changes; None where only the leader changes the real ones."""
    if view.leads or (view.knows_ranks and not view.is_mirrored(path)):
        return path
    there = view.place(path)
    if there is None:
        raise missing(path)
    return None if there == path or path in view.held else there


def change_folder(view: FileView, path: str, call: Call) -> None:
    there = view.found(path)
    if there is None:
        raise missing(path)
    there = path if real.isdir(path) else there
    call(there)
    view.folder = None if there == path else path
