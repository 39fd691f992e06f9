"""A rank becomes the leader: its writes and deletions become the state of the real files."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Iterator

from matex.files import open_files, real
from matex.files.held_files import release
from matex.files.view import FileView
from matex.records import console

__all__ = ["publish", "publish_open", "redirect_open"]


def publish(view: FileView) -> None:
    """Publish this rank's files; local, once. The earlier leader may have been behind or ahead.

    Changes of that leader that this rank has not reached stay where they are, unseen, until this
    rank makes them.

    Raises:
        OSError: a file cannot be written at the script's path.
    """
    if view.knows_ranks:
        view.leads = True
        return
    with real.direct():
        for path in [] if view.ledger is None else view.ledger.asides():
            with contextlib.suppress(OSError):  # of a leader that died before it was whole
                os.unlink(path)
        if view.ledger is not None:
            view.ledger.find_others()
        _count_all(view)
        done = _publish_changes(view, {})
        view.scratch.lead()
        _publish_changes(view, done)  # changes that other threads of this rank made meanwhile
    for path in list(view.changes.kept_open):
        release(view, path)
    if view.folder is not None:
        real.chdir(view.folder)
        view.folder = None
    view.changes.deleted.clear()
    view.changes.links.clear()
    view.forget_folders()
    if view.ledger is not None:
        changed = set(view.ledger.paths()).difference(view.ledger.asides())
        view.succession.not_repeated = changed - view.changes.paths
    for path in sorted(view.succession.kept_back):
        print(
            f"matex: {path} stays as the last leader left it: the script had it open when this "
            "rank took a place, and such a file cannot be continued",
            file=console.own("stdout"), flush=True,
        )  # fmt: skip
    view.leads = True


def _count_all(view: FileView) -> None:
    """Count changes of processes that this rank forked as its own."""
    for path, place in _tree(view):
        past = None if view.ledger is None else view.ledger.before(path)
        is_new = past is not None and past[1].kind == "nothing"
        if path not in view.changes.kept_open and (is_new or not os.path.isdir(place)):
            view.count(path)


def _publish_changes(view: FileView, done: dict[str, object]) -> dict[str, object]:
    """Apply this rank's changes in its own tree to the real files.

    Args:
        done: result of an earlier call, whose changes are already made.

    Returns:
        Each path that was changed, and how its file in the tree was then.
    """
    tree = list(_tree(view))
    states = {path: _state(place) for path, place in tree if real.lexists(place)}
    deletions = [path for path in view.changes.deleted if path not in done]
    for path in sorted(deletions, key=len, reverse=True):
        _note(view, path)
        _delete(view, path)
    for path, place in tree:
        if path in view.succession.kept_back:
            continue
        if path in states and states[path] != done.get(path):
            _note(view, path)
            _put(view, path, place)
    return states | dict.fromkeys(deletions)


def _state(place: str) -> tuple[int, ...]:
    now = os.lstat(place)
    if os.path.isdir(place) and not os.path.islink(place):
        return (now.st_ino,)
    return now.st_ino, now.st_size, now.st_mtime_ns


def publish_open(view: FileView) -> None:
    """Publish again files that this rank opened before it led and still writes; local."""
    if not view.scratch.made:
        return
    with real.direct():
        for place in list(view.succession.still_written):
            path = place[len(view.scratch.tree) :]
            is_open = place in _open_files(view)
            own = path in view.changes.paths and path not in view.succession.kept_back
            if own and real.lexists(place) and not real.same(place, path):
                real.copy(place, path, view.aside(path))
            if not is_open:
                view.succession.still_written.discard(place)


def redirect_open(view: FileView) -> None:
    """Let what the script's files still hold back go into the real files, when it has ended; local.

    Python and libraries write it at the end of the process, after this rank's own tree is gone.
    """
    if not view.scratch.made:
        return
    below = view.scratch.tree
    with real.direct():
        for file in open_files.written():
            path = file.path[len(below) :]
            if (
                not file.path.startswith(f"{below}/")
                or path not in view.changes.paths - view.succession.kept_back
            ):
                continue
            with contextlib.suppress(OSError):  # removed, or closed meanwhile
                open_files.redirect(file, path)


def _open_files(view: FileView) -> set[str]:
    """Regular files in this rank's own tree that this process has open for writing."""
    below = f"{view.scratch.tree}/"
    return {file.path for file in open_files.written() if file.path.startswith(below)}


def _tree(view: FileView) -> Iterator[tuple[str, str]]:
    """(Path, place in this rank's own tree) of all entries, folders first."""
    if not view.scratch.made:
        return
    view.succession.still_written |= _open_files(view)
    root = view.scratch.tree
    for folder, folders, files in os.walk(root):
        for name in [*folders, *files]:
            place = os.path.join(folder, name)
            yield place[len(root) :], place


def _note(view: FileView, path: str) -> None:
    """Tell the other ranks, to which this rank may be ahead, how *path* was."""
    if view.ledger is not None and path in view.changes.paths:
        view.ledger.tell_others(path, "overwrite", tree=path in view.changes.created)
        if view.ledger.before(path) is None:
            view.ledger.note(path, "overwrite", tree=path in view.changes.created)


def _delete(view: FileView, path: str) -> None:
    known = view.ledger is not None and view.ledger.before(path) is not None
    if not known and real.identity(path) not in (None, view.changes.deleted[path]):
        return  # another program's, made since
    with contextlib.suppress(OSError):
        view.undo(path, keep=False)  # a folder stays where others put something into it


def _put(view: FileView, path: str, place: str) -> None:
    if path in view.changes.kept_open:  # the real one, or one under another name before
        if not real.lexists(path) or (path in view.changes.paths and not real.same(place, path)):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            real.copy(place, path, view.aside(path))
    elif os.path.islink(place):
        if not (os.path.islink(path) and os.readlink(path) == os.readlink(place)):
            _clear(path)
            os.symlink(os.readlink(place), path)
    elif os.path.isdir(place):
        # This rank may have only looked into a folder in whose place the last leader put a file.
        if not os.path.isdir(path) or (path in view.changes.paths and os.path.islink(path)):
            _clear(path)
        os.makedirs(path, exist_ok=True)
    elif stat.S_ISFIFO(os.stat(place).st_mode):
        _clear(path)
        os.mkfifo(path, stat.S_IMODE(os.stat(place).st_mode))
    elif not real.same(place, path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if os.path.isdir(path):
            _clear(path)
        real.copy(place, path, view.aside(path))


def _clear(path: str) -> None:
    """Remove the entry at *path* for one of another kind; this rank does not see it."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)
