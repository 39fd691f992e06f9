"""The working ranks and the spares, as one rank of the ft layer sees them; newcomers' state."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

import ft

__all__ = ["Places"]


class Places:
    """The place of this rank in a run, which spares learn from those who work.

    ``number`` is the operation to make next, ``digest`` a hash over the results of the run.

    Args:
        path: a file that holds the number of the newest operation that was begun, so that a
            spare can die while one of them runs.
    """

    def __init__(
        self,
        communicator: ft.Communicator,
        injector: ft.Injector,
        dog: ft.Watchdog,
        *,
        path: Path,
        log: Callable[..., None],
    ) -> None:
        self._comm = communicator
        self._faults = injector
        self._dog = dog
        self._begun = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        self._log = log
        self.number = 0
        self.digest = 0

    def set_aside(self, working: int) -> None:
        """All but the first *working* members wait until they are needed, or receive the end."""
        comm = self._comm
        self._faults.during("validation")
        if comm.set_aside(working):
            return
        with self._dog.working(False):
            called = comm.wait(self._idle)
        if called.agreed_purpose == ft.Purpose.FILL:
            self._log("joined", step=self._faults.step)
        self._faults.heard("resumed")
        self._tell(rank for rank in called.after.ranks if rank not in called.before.ranks)

    def call_back(self, *, closing: bool) -> None:
        """Make all ranks members again after the last operation of a run."""
        workers = self._comm.world.ranks
        self._faults.during("validation")
        self._comm.call_back(closing=closing)
        newcomers = set(self._comm.world.ranks) - set(workers)
        if newcomers:
            self._tell(newcomers)

    def welcome(self, replaced: tuple[tuple[int, int], ...] = ()) -> None:
        """Fill the places of the dead, and tell who took them; collective over those who work.

        Args:
            replaced: pairs of a dead rank and the spare in its place, of the recovery just made.
        """
        while replaced := replaced or self._comm.fill():
            self._tell(spare for _, spare in replaced)
            replaced = ()

    def begin(self) -> None:
        """The next operation begins."""
        self._faults.step = self.number
        os.pwrite(self._begun, self.number.to_bytes(8, "little"), 0)
        self._faults.at("compute")

    def done(self, result: bytes) -> None:
        """It has *result*."""
        before = self.digest.to_bytes(8, "little", signed=True)
        digest = hashlib.blake2b(before + result, digest_size=8).digest()
        self.digest = int.from_bytes(digest, "little", signed=True)
        self._faults.at("after-exchange")
        self.number += 1
        self._dog.progress()

    def in_recovery(self) -> None:
        """Inside each repair, also that of a rank that waits."""
        if self._comm.world.is_spare:
            self._follow()
        self._faults.at("recovery")

    def _tell(self, newcomers: Iterable[int]) -> None:
        joined = set(newcomers)
        sources = [rank for rank in self._comm.world.ranks if rank not in joined]
        self._faults.during("checkpoint")
        state: np.ndarray[Any, Any] = np.array([self.number, self.digest], np.int64)
        self._comm.broadcast(state, sources=sources)
        self.number, self.digest = map(int, state)
        self._faults.step = self.number

    def _idle(self) -> None:
        if self._faults.strikes:
            with self._dog.busy():
                self._follow()

    def _follow(self) -> None:
        """Go through the operations that the others have begun, as far as faults are concerned."""
        begun = int.from_bytes(os.pread(self._begun, 8, 0), "little")
        for number in range(self._faults.step, max(self._faults.step, begun) + 1):
            self._faults.step = number
            for phase in _AT_WORK:
                self._faults.at(phase)


# Whoever waits is struck in these phases of an operation, too.
_AT_WORK = ("compute", "before-exchange", "in-exchange", "after-exchange")
