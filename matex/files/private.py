"""The files of this rank, from the run's start to its end."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import ft
from matex.files import changes_directory, handover, held_files, open_files, real
from matex.files.ledger import Ledger
from matex.files.own_paths import OwnPaths
from matex.files.publish import publish, publish_open, redirect_open
from matex.files.scratch import Scratch, remove_left
from matex.files.view import FileView

__all__ = ["PrivateFiles", "asks_for_rank"]

_MOST_HELD = 64
_RANK = re.compile(r"\bmpi4py\b|OMPI_COMM_WORLD_(LOCAL_)?RANK|\bPMIX?_RANK\b|SLURM_(PROC|LOCAL)ID")


def asks_for_rank(text: str) -> bool:
    """Whether a script asks for its rank by other means than matex. Pure."""
    return _RANK.search(text) is not None


def _beginnings(a: str, b: str) -> tuple[str, str]:
    """*a* and *b* without their common ending. Pure."""
    start = _alike(a, b)
    end = _alike(a[start:][::-1], b[start:][::-1])
    return a[: len(a) - end], b[: len(b) - end]


def _alike(a: str, b: str) -> int:
    """The number of characters with which both begin. Pure."""
    pairs = zip(a, b, strict=False)
    return next((n for n, (x, y) in enumerate(pairs) if x != y), min(len(a), len(b)))


class PrivateFiles:
    """The private files of this rank. One per process, if there are several ranks.

    Args:
        key: text that is equal on all ranks of the run, newcomers included.
        passed: directories whose files are common to all ranks: matex's own.
    """

    def __init__(
        self, communicator: ft.Communicator, key: str, passed: Sequence[Path | None]
    ) -> None:
        self._communicator = communicator
        self._lock = threading.RLock()
        self._shared = str(changes_directory.changes_directory(passed[0], key))
        self._held: int | None = None
        self._hold_shared(Path(self._shared))
        self._recording: set[str] = set()
        #: Names on this rank of files that callbacks on the leader write.
        self.names: dict[str, str] = {}
        self.at_end: list[str] = []  # removed when all ranks have ended the script
        remove_left()
        ledger = (
            Ledger(self._shared, communicator.world.rank) if os.path.isdir(self._shared) else None
        )
        self._view = FileView(Scratch(), ledger, leads=communicator.world.is_leader)
        self._paths = OwnPaths(self._view, (*passed, self._shared))
        self._has_ended = False
        os.register_at_fork(before=self._before_fork)

    def _before_fork(self) -> None:
        """Make this rank's own tree, which otherwise a forked child would make for itself."""
        if not self._view.leads and not self._has_ended:
            self._view.scratch.ensure()

    def _hold_shared(self, path: Path) -> None:
        """Hold the directory that the leader makes; collective. Ranks may not share it."""

        def make_it() -> bytes:
            self._held = changes_directory.make(path)
            return b""

        ft.one_answer(self._communicator, make_it)
        if self._held is None:
            self._held = changes_directory.hold_if_shared(path)

    @property
    def others_first(self) -> bool:
        """Whether the leader is another rank of this host, which first does work for all."""
        world = self._communicator.world
        leader = next(m for m in world.members if m.rank == world.leader)
        return not world.is_leader and leader.machine == world.me.machine

    @property
    def shared_folder(self) -> Path | None:
        """Directory of matex that all ranks share; None if they do not share one."""
        return None if self._view.ledger is None else Path(self._shared)

    def leader_lives(self) -> bool | None:
        """Whether the leader lives, before any message tells; None on another host. Local."""
        world = self._communicator.world
        return self._lives(next(m for m in world.members if m.rank == world.leader))

    def _lives(self, member: ft.Member) -> bool | None:
        me = self._communicator.world.me
        if not member.shares_ids_with(me):
            return None
        return Path(f"/proc/{member.pid}").exists()

    def succeed(self) -> bool | None:
        """Make this rank's files the real ones if all ranks before it have died. Local.

        No message has told of it yet.

        Returns:
            Whether it leads now; None where that cannot be seen, because one is on another host.
        """
        world = self._communicator.world
        before = [self._lives(m) for m in world.members if m.rank < world.me.rank]
        if None in before:
            return None
        if any(before):
            return False
        with self._lock, real.direct():
            if not self._view.leads:
                publish(self._view)
        return True

    @property
    def run(self) -> str:
        """A name of this run, equal on all ranks."""
        return os.path.basename(self._shared)

    # Questions of the replaced functions.

    def view(self) -> FileView | None:
        """View of this rank; None if this thread works on the real files."""
        if real.is_direct():
            return None
        if not self._view.leads:
            if self._communicator.world.is_leader:
                self.publish_if_leader()
        elif self._view.succession.still_written:
            self.publish_if_leader()
        return self._view

    def path(self, given: Any, *, follow: bool = True) -> str | None:
        """Path in the view for the script's path; None for one that is always real."""
        return self._paths.path(given, follow=follow)

    def temporary(self, path: str) -> None:
        """Note that *path* has a unique name, which no other rank uses."""
        self._paths.temporary(path)

    # Calls by the run.

    def script_knows_ranks(self) -> None:
        """Note that the script has asked for its rank: its later writes are its own affair."""
        self._view.knows_ranks = True

    def publish_if_leader(self) -> None:
        """Make this rank's files the real ones if it has become the leader; local."""
        with self._lock, real.direct():
            if self._communicator.world.is_leader and not self._view.leads:
                publish(self._view)
            if self._view.leads and self._view.succession.still_written:
                publish_open(self._view)

    # Handover to newcomers, one after the other.

    def hold_still(self) -> None:
        """Complete the real files, before newcomers take them over; on the others. Local."""
        open_files.flush(self._view.writers)
        self.publish_if_leader()

    def take_over(self) -> None:
        """Begin from the leader's files of this moment; on a newcomer. Local."""
        with self._lock:
            handover.take_over(self._view)

    def follow(self) -> None:
        """Tell newcomers of changes from now on; on the others, when newcomers are ready. Local."""
        with self._lock, real.direct():
            if self._view.leads:
                world = self._communicator.world
                handover.follow(self._view, [m.rank for m in world.everyone])

    @contextlib.contextmanager
    def written(self) -> Iterator[None]:
        """Context in which only the leader writes files for all ranks; their names are noted."""
        view = self._view
        self.publish_if_leader()
        before, view.recorder = view.recorder, self._recording if view.leads else None
        try:
            yield
        finally:
            view.recorder = before

    def share_written(self) -> None:
        """Let all ranks see the files of the contexts of :meth:`written`; collective."""
        self.publish_if_leader()
        with real.direct():
            mine = sorted(path for path in self._recording if os.path.isfile(path))
        self._recording.clear()
        text = json.dumps([mine, self.names]).encode() if mine and self._view.leads else b""
        size = np.array([len(text)], np.int64)
        self._communicator.broadcast(size)
        if not int(size[0]):
            return
        buffer = np.zeros(int(size[0]), np.uint8)
        if len(text) == buffer.size:
            buffer[:] = np.frombuffer(text, np.uint8)
        self._communicator.broadcast(buffer)
        with contextlib.suppress(ValueError):  # a leader that died between the two
            paths, names = json.loads(bytes(buffer).rstrip(b"\0"))
            self.adopt(paths, [(names[n], own) for n, own in self.names.items() if n in names])
        self._communicator.barrier()  # the leader may delete them from here on

    def adopt(self, paths: Iterable[str], names: Sequence[tuple[str, str]] = ()) -> None:
        """Keep the leader's current files *paths*, although it may delete them; local.

        Until the next call, or the end.

        Args:
            names: names that the leader gave its files or folders, each with this rank's own,
                which differ where they have a time or a process's number in them.
        """
        view = self._view
        if view.leads or view.knows_ranks:
            return
        with self._lock, real.direct():
            for path in [p for p in view.changes.kept_open if p not in view.changes.paths]:
                if view.is_mirrored(path):
                    os.unlink(view.own_place(path))
                held_files.release(view, path)
            renamed = self._renamings(names)
            for there in list(paths)[-_MOST_HELD:]:
                path = next((b + there[len(a) :] for a, b in renamed if there.startswith(a)), there)
                if held_files.hold(view, path, there):
                    view.changes.paths.discard(path)
                    view.changes.deleted.pop(path, None)

    def _renamings(self, names: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        """The beginnings of paths on the leader, and here, for *names* that differ."""
        found = []
        for name in names:
            theirs, own = map(self.path, name)
            if theirs is not None and own is not None and theirs != own:
                found.append(_beginnings(theirs, own))
        return found

    def complete(self) -> None:
        """Let all that the script's files hold back reach the real ones, on the leader; local.

        After the script's last line: what its files write from here on is written once.
        """
        self.publish_if_leader()
        with self._lock:
            if self._view.leads:
                redirect_open(self._view)

    def finish(self) -> None:
        """End after the script has ended on all ranks; local, before they leave each other."""
        self.complete()
        self._has_ended = True
        with real.direct():
            self._view.scratch.remove()
            for path in self.at_end:
                with contextlib.suppress(OSError):
                    os.unlink(path)
            shutil.rmtree(self._shared, ignore_errors=True)
            if self._held is not None:
                os.close(self._held)
        remove_left()
