"""The files of this rank, from the run's start to its end."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import tempfile
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import ft
from matex.files import held_files, real
from matex.files.ledger import Ledger
from matex.files.own_paths import OwnPaths
from matex.files.publish import publish, publish_open
from matex.files.scratch import Scratch, remove_left
from matex.files.view import FileView

__all__ = ["PrivateFiles", "asks_for_rank"]

_MOST_HELD = 64
_RANK = re.compile(r"\bmpi4py\b|OMPI_COMM_WORLD_(LOCAL_)?RANK|\bPMIX?_RANK\b|SLURM_(PROC|LOCAL)ID")


def asks_for_rank(text: str) -> bool:
    """Whether a script asks for its rank in another way than by matex. Pure."""
    return _RANK.search(text) is not None


class PrivateFiles:
    """The private files of this rank. One to a process, where there is more than one rank.

    Args:
        key: text that is equal on all ranks of the run, also on those that come later.
        passed: directories whose files are the same for all: matex's own.
    """

    def __init__(
        self, communicator: ft.Communicator, key: str, passed: Sequence[Path | None]
    ) -> None:
        self._communicator = communicator
        self._lock = threading.RLock()
        self._shared = self._changes_directory(passed[0], key)
        self._recording: set[str] = set()
        self.at_end: list[str] = []  # removed when all ranks have come to the end
        remove_left()
        ledger = Ledger(self._shared) if os.path.isdir(self._shared) else None
        self._view = FileView(Scratch(), ledger, leads=communicator.world.is_leader)
        self._paths = OwnPaths(self._view, (*passed, self._shared))

    def _changes_directory(self, report: Path | None, key: str) -> str:
        """Made by the leader; collective. Where ranks do not share it they do without."""
        folder = tempfile.gettempdir() if report is None else str(Path(report).absolute())
        path = f"{folder}/.matex-changes-{os.getuid()}-{key[:16]}"
        if self._communicator.world.is_leader:
            with contextlib.suppress(OSError):
                os.mkdir(path, 0o700)
        self._communicator.barrier()
        return path

    @property
    def others_first(self) -> bool:
        """Whether the leader is another rank of this host, and does first what one does for all."""
        world = self._communicator.world
        leader = next(m for m in world.members if m.rank == world.leader)
        return not world.is_leader and leader.host == world.me.host

    @property
    def run(self) -> str:
        """A name of this run, equal on all ranks."""
        return os.path.basename(self._shared)

    # What the replaced functions ask.

    def view(self) -> FileView | None:
        """The view of this rank; None where this thread works on the real files."""
        if real.is_passing():
            return None
        if not self._view.leads:
            if self._communicator.world.is_leader:
                self.settle()
        elif self._view.late:
            self.settle()
        return self._view

    def path(self, given: Any, *, follow: bool = True) -> str | None:
        """The path of the view that the script means; None for what is always the real one."""
        return self._paths.path(given, follow=follow)

    def temporary(self, path: str) -> None:
        """*path* was given a name that no other rank has."""
        self._paths.temporary(path)

    # What the run tells.

    def script_knows_ranks(self) -> None:
        """The script asked for its rank: from here on what it writes is its own affair."""
        self._view.knows_ranks = True

    def settle(self) -> None:
        """Make this rank's files the real ones where it has come to lead; local."""
        with self._lock, real.passing():
            if self._communicator.world.is_leader and not self._view.leads:
                publish(self._view)
            if self._view.leads and self._view.late:
                publish_open(self._view)

    @contextlib.contextmanager
    def written(self) -> Iterator[None]:
        """A context in which the leader alone writes files for all ranks, and notes their names."""
        view = self._view
        self.settle()
        before, view.recorder = view.recorder, self._recording if view.leads else None
        try:
            yield
        finally:
            view.recorder = before

    def share_written(self) -> None:
        """Let all ranks see the files of the contexts of :meth:`written`; collective."""
        self.settle()
        with real.passing():
            mine = sorted(path for path in self._recording if os.path.isfile(path))
        self._recording.clear()
        text = json.dumps(mine if self._view.leads else []).encode()
        size = np.array([len(text)], np.int64)
        self._communicator.broadcast(size)
        if int(size[0]) <= len("[]"):
            return
        buffer = np.zeros(int(size[0]), np.uint8)
        if len(text) == buffer.size:
            buffer[:] = np.frombuffer(text, np.uint8)
        self._communicator.broadcast(buffer)
        with contextlib.suppress(ValueError):  # a leader that died between the two
            self.adopt(json.loads(bytes(buffer).rstrip(b"\0")))
        self._communicator.barrier()  # the leader may delete them from here on

    def adopt(self, paths: Iterable[str]) -> None:
        """Keep the leader's files *paths* as they are now, though it may delete them; local.

        Until the next call, or the end.
        """
        view = self._view
        if view.leads or view.knows_ranks:
            return
        with self._lock, real.passing():
            for path in [p for p in view.held if p not in view.own]:
                if view.is_mirrored(path):
                    os.unlink(view.own_place(path))
                held_files.release(view, path)
            for path in list(paths)[-_MOST_HELD:]:
                if held_files.hold(view, path, path):
                    view.own.discard(path)
                    view.gone.pop(path, None)

    def finish(self) -> None:
        """The script has ended on all ranks; local, before they leave each other."""
        self.settle()
        with real.passing():
            self._view.scratch.remove()
            for path in self.at_end:
                with contextlib.suppress(OSError):
                    os.unlink(path)
            shutil.rmtree(self._shared, ignore_errors=True)
        remove_left()
