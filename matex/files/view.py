"""The view of one rank: its own tree, former states of changed files, the real files.

Paths here are absolute, without ``..`` and without symbolic links in their folders
(:meth:`FileView.canonical`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any, TypeVar
from weakref import WeakSet

from matex.files import real
from matex.files.ledger import Before, Change, Ledger
from matex.files.rank_changes import LeaderSuccession, RankChanges
from matex.files.real_folders import RealFolders
from matex.files.restore import put_back, undo
from matex.files.scratch import ALIAS, Scratch

__all__ = ["FileView", "missing"]

T = TypeVar("T")


def missing(path: str) -> FileNotFoundError:
    return FileNotFoundError(2, os.strerror(2), path)


class FileView:
    """The files that a script sees on this rank. Local.

    Args:
        ledger: ledger of the leader's changes; None if this rank cannot read it.
        leads: whether this rank's files are the real ones.
    """

    def __init__(self, scratch: Scratch, ledger: Ledger | None, *, leads: bool) -> None:
        self.scratch = scratch
        self.ledger = ledger
        self.leads = leads
        #: The script asked for its rank: from then on it deals with files itself.
        self.knows_ranks = False
        self.changes = RankChanges()
        self.succession = LeaderSuccession()
        #: Working directory that the script changed to; and the same if the real one is another.
        self.entered: str | None = None
        self.folder: str | None = None
        self._folders = RealFolders()
        #: Set that takes the leader's changes in place of the ledger; None for the ledger.
        self.recorder: set[str] | None = None
        #: Python's files that the script opened to write.
        self.writers: WeakSet[Any] = WeakSet()

    def canonical(self, path: str, *, follow: bool = True) -> str:
        """Absolute *path* without symbolic links, except for its last name.

        Args:
            follow: the last name may be a link of this rank's own.
        """
        return self._folders.canonical(path, self.changes.links, follow=follow)

    def forget_folders(self) -> None:
        """A symbolic link was made or removed."""
        self._folders.forget()

    def is_mirrored(self, path: str) -> bool:
        """Whether this rank's own tree contains *path*."""
        return self.scratch.made and not self.leads and real.lexists(ALIAS + path)

    @property
    def is_plain(self) -> bool:
        """Whether every path is the real one; fast."""
        if self.leads:
            return not self.succession.not_repeated
        if self.scratch.made or self.changes.deleted:
            return False
        return self.ledger is None or self.knows_ranks

    def is_touched(self, folder: str) -> bool:
        """Whether the list of *folder* may differ from the real one, or its order."""
        if (
            folder in self.changes.folders
            or self.is_mirrored(folder)
            or self.found(folder) != folder
        ):
            return True
        return not self.is_plain and bool(self.ledger and self.ledger.names(folder))

    def found(self, path: str) -> str | None:
        """Place of the content of *path*; None if there is nothing of that name.

        A path that was never changed is its own place, whether it exists or not.
        """
        if self.is_mirrored(path) and not self._is_shadow(path):
            return ALIAS + path
        if path in self.changes.deleted and self._is_gone(path):
            return None
        past = self._hidden(path)
        return path if past is None else self._as_before(path, past)

    def _is_shadow(self, path: str) -> bool:
        """Whether *path* is in this rank's own tree only because an entry below it is."""
        return path not in self.changes.paths and real.isdir(ALIAS + path) and real.isdir(path)

    def at(
        self,
        path: str,
        act: Callable[[str], T],
        *,
        errors: type[Exception] = OSError,
        undo: Callable[[T], object] | None = None,
    ) -> T:
        """Result of *act* at the place of the content of *path*.

        The leader may change the real file between the look-up of the place and the use by *act*.
        Such a result does not count: *act* is called again at the new place.

        Args:
            errors: exceptions that *act* may raise because the file changed; OSError by default.
            undo: function called with a result that does not count; None for none.

        Raises:
            FileNotFoundError: there is nothing of that name.
        """
        place = self.found(path)
        while True:
            if place is None:
                raise missing(path)
            try:
                result = act(place)
            except errors:
                now = self.found(path)
                if now == place:
                    raise
            else:
                now = self.found(path)
                if now == place:
                    return result
                if undo is not None:
                    undo(result)
            place = now

    def place(self, path: str) -> str | None:
        """Current place of the content of *path*; None if there is none."""
        try:
            return self.at(path, _that_is_there)
        except OSError:
            return None

    def exists(self, path: str) -> bool:
        return self.place(path) is not None

    def isdir(self, path: str) -> bool:
        try:
            return self.at(path, real.isdir)
        except FileNotFoundError:
            return False

    def names(self, path: str) -> list[str]:
        """Names in the directory *path*, in an order that is equal on all ranks.

        Raises:
            OSError: *path* is no directory.
        """
        place, there = self.at(path, lambda place: (place, real.listdir(place)))
        listed = there if place == path else real.names(path)
        own = real.names(ALIAS + path) if self.is_mirrored(path) else []
        known = {*listed, *there, *own}
        if self.ledger is not None:
            known |= self.ledger.names(path)
        seen = {name for name in known if self.exists(os.path.join(path, name))}
        if path in self.changes.folders:
            return sorted(seen)
        return [n for n in listed if n in seen] + sorted(seen.difference(listed))

    def walk(self, path: str) -> Iterator[str]:
        """*path* and all entries below it, folders first."""
        yield path
        place = self.found(path)
        if place is not None and real.isdir(place) and not real.islink(place):
            for name in self.names(path):
                yield from self.walk(os.path.join(path, name))

    def _is_gone(self, path: str) -> bool:
        if self.ledger is not None and self.ledger.before(path) is not None:
            return True
        return real.identity(path) in (None, self.changes.deleted[path])

    def _hidden(self, path: str) -> Before | None:
        """Former state of *path*, if others changed it and this rank has not."""
        if self.ledger is None or self.knows_ranks or path in self.changes.paths:
            return None
        found = self.ledger.before(path)
        if found is None or found[0] in self.changes.paths or found[1].by == self.ledger.rank:
            return None
        return found[1]

    def _as_before(self, path: str, past: Before) -> str | None:
        if past.kind == "nothing":
            return None
        if past.kind == "folder":
            if real.isdir(path):
                return path
            if self.leads:
                self._restore(path, past)
                return path
            with real.direct():
                os.makedirs(self.own_place(path), exist_ok=True)
            return ALIAS + path
        source = past.kept if past.kept is not None and real.lexists(past.kept) else path
        return source if past.size is None else self._first_bytes(path, source, past.size)

    def _first_bytes(self, path: str, source: str, size: int) -> str:
        """A file of the first *size* bytes of *source*, for *path*."""
        if path not in self.changes.beginnings:
            name = self.scratch.new_name()
            try:
                real.copy(source, name)
            except FileNotFoundError:
                return source
            with real.direct():
                os.truncate(name, size)
            self.changes.beginnings[path] = name
        return self.changes.beginnings[path]

    # Changing.

    def own_place(self, path: str) -> str:
        """The place of *path* in this rank's own tree, in a folder that is made here."""
        self.scratch.ensure()
        with real.direct():
            os.makedirs(ALIAS + os.path.dirname(path), exist_ok=True)
        return ALIAS + path

    def count(self, path: str) -> None:
        """Note that this rank has changed *path*."""
        self.changes.paths.add(path)
        self.succession.not_repeated.discard(path)
        self.changes.folders.add(os.path.dirname(path))

    def hide(self, path: str) -> None:
        """Note that this rank has deleted *path*."""
        self.count(path)
        self.changes.created.discard(path)
        self.succession.kept_back.discard(path)
        self.changes.deleted[path] = real.identity(path)
        if self.changes.links.pop(path, None) is not None:
            self.forget_folders()

    def claim(self, path: str, change: Change, *, tree: bool = False) -> None:
        """This rank, which leads, is about to change *path* on the real file system."""
        if self.recorder is not None:
            self.recorder.add(path)
            return
        if self.ledger is not None and not self.knows_ranks:
            self.ledger.tell_others(path, change, tree=tree)
            past = self._hidden(path)
            if past is not None:
                self._restore(path, past)
            elif path not in self.changes.paths and self.ledger.before(path) is None:
                self.ledger.note(path, change, tree=tree)
            elif change != "append":
                self.ledger.note_end(path, change)
        self.count(path)

    def aside(self, path: str) -> str:
        """Name next to the real file *path* for a file to replace it; no rank lists it."""
        name = real.aside_name(path)
        if self.ledger is not None and not self.knows_ranks:
            self.ledger.note_aside(name)
        return name

    def _restore(self, path: str, past: Before) -> None:
        """Undo a dead leader's change of *path*, before this rank makes the same change."""
        put_back(path, past, self.aside, lambda below: self.found(below) is None)

    def undo(self, path: str, *, keep: bool) -> None:
        """Remove a dead leader's files at *path*; see :func:`matex.files.restore.undo`."""
        undo(path, lambda below: self.found(below) is None, keep=keep)


def _that_is_there(place: str) -> str:
    real.lstat(place)
    return place
