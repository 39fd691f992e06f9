"""A newcomer that takes a place gets the files of the others: those of the leader at that moment.

It has slept, or run the script alone, while the others wrote. Its own versions of files that the
leader has changed become the leader's, and it begins a ledger of its own, into which the leader
notes from then on how each file was before its next change. So the newcomer sees all files as they
were when it took the place, as other ranks see them as they were at the start.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Collection
from urllib.parse import quote

from matex.files import open_files, real
from matex.files.held_files import release
from matex.files.open_files import OpenFile
from matex.files.view import FileView

__all__ = ["follow", "take_over"]

_DATABASE = b"SQLite format 3\0"
# First bytes of files whose writer, in memory, does not fit to another content: HDF5, gzip, zip,
# bzip2, xz.
_STRUCTURED = (b"\x89HDF\r\n\x1a\n", b"\x1f\x8b", b"PK\x03\x04", b"BZh", b"\xfd7zXZ")


def follow(view: FileView, ranks: Collection[int]) -> None:
    """Note changes for the newcomers among *ranks* from now on; on the leader. Local.

    What it has open is noted now, because later writes to it pass no function of Python's.
    """
    if view.ledger is None or view.knows_ranks:
        return
    view.ledger.find_others(ranks)
    if not view.ledger.others:
        return
    for file in open_files.written():
        if file.path in view.changes.paths or view.ledger.before(file.path) is not None:
            view.ledger.tell_others(file.path, "append" if file.is_at_end else "overwrite")
    for place in view.succession.still_written:
        view.ledger.tell_others(place[len(view.scratch.tree) :], "overwrite")


def take_over(view: FileView) -> None:
    """Begin from the real files as they are; on a newcomer, while the leader changes none. Local.

    Files that this rank has open for writing get the real content in place, and what it writes
    next follows. Those for which that is impossible are left alone, here and on the disk.
    """
    if view.leads or view.knows_ranks:
        return
    with real.direct():
        open_files.flush(view.writers)
        if view.scratch.made:
            _renew_tree(view)
        view.changes.deleted = {
            path: was for path, was in view.changes.deleted.items() if not _is_changed(view, path)
        }
        view.changes.paths = {
            p for p in view.changes.paths if p in view.changes.deleted or view.is_mirrored(p)
        }
        view.changes.beginnings.clear()
        view.forget_folders()
        if view.ledger is not None:
            view.changes.folders.update(map(os.path.dirname, view.ledger.paths()))
            view.ledger = view.ledger.anew()
        if view.folder is not None and os.path.isdir(view.folder):
            real.chdir(view.folder)
            view.folder = None


def _is_changed(view: FileView, path: str) -> bool:
    """Whether the leader changed *path*; without a ledger, whether there is a real one."""
    if view.ledger is None:
        return real.lexists(path)
    return view.ledger.before(path) is not None


def _renew_tree(view: FileView) -> None:
    root = view.scratch.tree
    opened: dict[str, list[OpenFile]] = {}
    for file in open_files.written():
        opened.setdefault(file.path, []).append(file)
    for folder, folders, files in os.walk(root, topdown=False):
        for name in [*files, *folders]:
            place = os.path.join(folder, name)
            path = place[len(root) :]
            if path in view.changes.kept_open:
                _drop(view, path, place)
            elif _is_changed(view, path):
                _renew(view, path, place, opened.get(place, []))


def _renew(view: FileView, path: str, place: str, opened: list[OpenFile]) -> None:
    """Make the entry at *place* that of the leader at *path*, or remove it."""
    links = real.islink(place), real.islink(path)
    if links == (True, True) and real.readlink(place) == real.readlink(path):
        return
    if not any(links) and real.isdir(place) and real.isdir(path):
        view.changes.paths.discard(path)
        view.changes.created.discard(path)
    elif not any(links) and os.path.isfile(place) and os.path.isfile(path):
        if (
            path in view.changes.paths
            and not real.same(place, path)
            and not _fill(path, place, opened)
        ):
            view.succession.kept_back.add(path)
    else:
        _drop(view, path, place)


def _drop(view: FileView, path: str, place: str) -> None:
    if real.isdir(place) and not real.islink(place):
        with contextlib.suppress(OSError):  # this rank has files of other names in it
            os.rmdir(place)
    else:
        os.unlink(place)
    release(view, path)
    view.changes.paths.discard(path)
    view.changes.created.discard(path)
    view.changes.links.pop(path, None)


def _fill(path: str, place: str, opened: list[OpenFile]) -> bool:
    """Give the file at *place* the content of *path*; return whether that was possible."""
    beginning = _beginning(path)
    if beginning == _DATABASE:
        return _fill_database(path, place)
    if not opened:
        real.copy(path, place)
        return True
    if (beginning or _beginning(place)).startswith(_STRUCTURED):
        return False
    at_end = [file for file in opened if file.is_at_end]
    with open(path, "rb") as source, open(place, "r+b") as target:
        shutil.copyfileobj(source, target)
        target.truncate()
    for file in at_end:
        os.lseek(file.descriptor, 0, os.SEEK_END)
    return True


def _fill_database(path: str, place: str) -> bool:
    """Copy a database by SQLite, so that the script's open connections see the new content."""
    try:
        import sqlite3
    except ImportError:  # a Python that was built without it
        return False
    try:
        with (
            contextlib.closing(sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True)) as source,
            contextlib.closing(sqlite3.connect(place)) as target,
        ):
            source.backup(target)
    except sqlite3.Error:  # a transaction is open
        return False
    return True


def _beginning(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read(len(_DATABASE))
