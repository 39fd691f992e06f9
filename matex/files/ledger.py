"""Ledger of the paths that the script changed since the run began, and their former state.

The leader writes a line before it first changes a path; the other ranks read the lines, and so find
every path as it was at the start, however far the leader is ahead of them. Changes by other
programs have no line, and all ranks see them.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import weakref
from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from typing import Literal

from matex.files import real
from matex.records.shared_files.line_file import is_whole

__all__ = ["Before", "Change", "Ledger"]

#: How a path is about to be changed: its bytes stay and some follow, they are overwritten in
#: place, it gets another name, or another file (or none) gets its name.
Change = Literal["append", "overwrite", "move", "replace"]

_KEPT_BYTES = 64 << 20  # more is not copied before it is overwritten: others see the new content
_FIRST = "changes"  # name of the ledger of all that were there at the start
_LATER = re.compile(r"since-(\d+)-\d+")  # names of those of newcomers, by rank
_ENDING = ".jsonl"


@dataclass(frozen=True)
class Before:
    """The state of a path before the run: "nothing", "folder", "file" or "lost", for unknown.

    Args:
        kept: current place of the file's former content; None, the default, for its own place.
        size: number of its first bytes that are the former content; None for all.
        tree: whether nothing below the path existed either.
        aside: whether the file at the path is not yet whole, and is to replace another.
        by: rank that changed it first.
    """

    kind: str
    kept: str | None = None
    size: int | None = None
    tree: bool = False
    aside: bool = False
    by: int = -1


class Ledger:
    """A directory that all ranks of a run, or of a host, can read. Local.

    Several threads may ask it at once. Its file is open until none of them uses it any more.

    Args:
        directory: the directory.
        rank: this rank; processes that it forks write as this rank.
        name: name of the ledger in the directory; by default that of the ranks of the start.
    """

    def __init__(self, directory: str, rank: int, *, name: str = _FIRST) -> None:
        self._directory = directory
        self._name = name
        self.rank = rank
        #: Ledgers of ranks that see other former states; of the leader alone.
        self.others: list[Ledger] = []
        self._file = os.open(
            f"{directory}/{name}{_ENDING}",
            os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC,
            0o600,
        )
        weakref.finalize(self, os.close, self._file).atexit = False
        self._read = 0
        self._entries: dict[str, Before] = {}
        self._trees: set[str] = set()
        self._below: dict[str, set[str]] = {}

    def __len__(self) -> int:
        self._look()
        return len(self._entries)

    def before(self, path: str) -> tuple[str, Before] | None:
        """Changed path that decides about *path* (itself or a tree above), and its former state."""
        self._look()
        entry = self._entries.get(path)
        if entry is not None:
            return path, entry
        for tree in tuple(self._trees):
            if path.startswith(f"{tree}/"):
                return tree, self._entries[tree]
        return None

    def paths(self) -> list[str]:
        self._look()
        return list(self._entries)

    def names(self, directory: str) -> set[str]:
        """Names directly in *directory* that were changed."""
        self._look()
        return set(self._below.get(directory, ()))

    def note(self, path: str, change: Change, *, tree: bool = False) -> None:
        """Note that this rank, the leader, is about to change *path* for the first time."""
        entry = self._state(path, change, tree)
        self._write(path, entry)

    def note_aside(self, path: str) -> None:
        """Note that this rank, the leader, is about to write a file at *path*, then rename it."""
        for ledger in (self, *self.others):
            if path not in ledger._entries:
                ledger._write(path, Before("nothing", aside=True))

    def asides(self) -> list[str]:
        """Paths at which leaders wrote files that they then renamed, unless they died before."""
        self._look()
        return [path for path, entry in self._entries.items() if entry.aside]

    def note_end(self, path: str, change: Change) -> None:
        """Note that *path*, which was only appended to before, is about to be changed otherwise."""
        entry = self._entries.get(path)
        if entry is not None and entry.size is not None and entry.kept is None:
            self._write(path, replace(self._state(path, change, False), size=entry.size))

    # Ledgers of newcomers, which see files as they were when they took a place.

    def anew(self) -> Ledger:
        """An empty ledger for this rank, from this moment on, in place of this one. Local."""
        match = _LATER.fullmatch(self._name)
        number = 0
        if match is not None:
            number = int(self._name.rpartition("-")[2]) + 1
            self._remove()
        return Ledger(self._directory, self.rank, name=f"since-{self.rank}-{number}")

    def find_others(self, ranks: Collection[int] | None = None) -> None:
        """Find the ledgers of other ranks, into which this rank, which leads, writes. Local.

        Args:
            ranks: living ranks; None if that is not known. Others' ledgers are left out.
        """
        names = {n.removesuffix(_ENDING) for n in real.names(self._directory)}
        matches = {name: _LATER.fullmatch(name) for name in names}
        wanted = {
            name
            for name, match in matches.items()
            if match is not None and (ranks is None or int(match[1]) in ranks)
        } | {_FIRST}
        wanted.discard(self._name)
        self.others = [ledger for ledger in self.others if ledger._name in wanted]
        wanted.difference_update(ledger._name for ledger in self.others)
        for name in sorted(wanted):
            self.others.append(Ledger(self._directory, self.rank, name=name))

    def tell_others(self, path: str, change: Change, *, tree: bool = False) -> None:
        """Note for newcomers that this rank, the leader, is about to change *path*."""
        for ledger in self.others:
            if ledger.before(path) is None:
                ledger.note(path, change, tree=tree)
            elif change != "append":
                ledger.note_end(path, change)

    def _remove(self) -> None:
        for name in real.names(self._directory):
            if name.startswith(f"{self._name}."):
                with contextlib.suppress(FileNotFoundError):
                    real.unlink(f"{self._directory}/{name}")

    def _write(self, path: str, entry: Before) -> None:
        line = json.dumps({"path": path, **asdict(entry), "by": self.rank}).encode() + b"\n"
        line = line if is_whole(self._file) else b"\n" + line
        if os.write(self._file, line) < len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self._directory)
        self._look()

    def _state(self, path: str, change: Change, tree: bool) -> Before:
        try:
            now = real.lstat(path)
        except FileNotFoundError:
            return Before("nothing", tree=tree)
        except OSError:
            return Before("lost")
        if real.isdir(path):
            return Before("folder")
        if change == "append":
            return Before("file", size=now.st_size)
        kept = f"{self._directory}/{self._name}.{os.getpid()}-{self._read}"
        if change == "replace":
            with contextlib.suppress(OSError):
                real.link(path, kept, follow_symlinks=False)
                return Before("file", kept=kept)
        if now.st_size <= _KEPT_BYTES:
            with contextlib.suppress(OSError):
                real.copy(path, kept)
                return Before("file", kept=kept)
        if change == "move":  # unless it is then written to under its new name
            with contextlib.suppress(OSError):
                real.link(path, kept, follow_symlinks=False)
                return Before("file", kept=kept)
        return Before("lost")

    def _look(self) -> None:
        """Read the lines written since the last call; another thread may read them, too."""
        begin, size = self._read, os.fstat(self._file).st_size
        if size <= begin:
            return
        text = os.pread(self._file, size - begin, begin)
        whole = text[: text.rfind(b"\n") + 1]
        for line in whole.splitlines():
            try:
                fields = json.loads(line)
            except ValueError:  # cut short on a full disk, so that the change was not made
                continue
            path = fields.pop("path")
            entry, known = Before(**fields), self._entries.get(path)
            if known is None or (known.size is not None and known.kept is None):
                self._entries[path] = entry
            self._below.setdefault(os.path.dirname(path), set()).add(os.path.basename(path))
            if fields["tree"]:
                self._trees.add(path)
        self._read = begin + len(whole)  # at last, so that no thread passes over unread lines
