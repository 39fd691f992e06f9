"""Saver of a run, with a tier in the memory of each node, and a tier of files.

All ranks hold the same state, so any of them can save it, and several can save a large one
together, each a part of its file. Between two steps a deferred snapshot is made; a thread copies
and writes it while training goes on. The leader decides on saves that are due by the clock, and
its decision travels with the gradients; saves that are due by a count all ranks know.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import numpy as np

import checkpoints
import ft
from matex.checkpointing.earlier_fit_store import EarlierFitStore
from matex.checkpointing.resume import newest_common_snapshot
from matex.checkpointing.save_interval import SaveInterval
from matex.checkpointing.starts import Starts
from matex.checkpointing.tier import Tier
from matex.checkpointing.writer_rotation import (
    team_size,
    writer_for_run,
    writer_group,
    writes_for_host,
)
from matex.config import Config
from matex.records.events import EventLog

__all__ = ["FILES", "MEMORY", "Saver"]

#: The bits by which tiers are named in a step's header.
MEMORY, FILES = 1, 2


class StateToSave(Protocol):
    """A state that is copied later: :class:`matex.checkpointing.deferred_snapshot`."""

    def snapshot(self) -> checkpoints.Snapshot:
        """Snapshot of the live arrays, for a writer that writes at once."""

    def copied(self) -> checkpoints.Snapshot:
        """Snapshot of copies: training may go on while any thread writes it."""


MakeState = Callable[[], StateToSave]

_DRAIN_S = 60.0
# For files that ranks of several hosts write together. On one host with one disk two writers took
# twice as long as one, for 30 to 1000 MB: they wait for each other at the file.
_PART_MB = 256.0
_KEPT_IN_MEMORY = 2
# Until it is copied, a held state makes TensorFlow allocate as much memory again in the next
# update, on its device: larger states are copied at once.
_HELD_BYTES = 64e6


class Saver:
    """Tiers of a run's checkpoints on this rank.

    Args:
        config, communicator, events: configuration, ranks and event log of the run.
        warn: function that prints a line for the user.
        before_attempt: function called before each attempt of :meth:`save_for_all`.
        on_saved: function called with the seconds that a file took; in the writing thread.
    """

    def __init__(
        self,
        config: Config,
        communicator: ft.Communicator,
        events: EventLog,
        warn: Callable[[str], None],
        *,
        before_attempt: Callable[[], None],
        on_saved: Callable[[float], None],
    ) -> None:
        self._config = config
        self._communicator = communicator
        self._on_saved = on_saved
        self._warn = warn
        self._before_attempt = before_attempt
        self._nbytes = 0
        self._interval = SaveInterval(communicator, config.checkpoint_interval)
        self.memory: Tier | None = None
        self.files: Tier | None = None
        self.earlier_fits: EarlierFitStore | None = None
        if config.memory is not None:
            store = checkpoints.Store(config.memory, keep_last=_KEPT_IN_MEMORY)
            self.memory = Tier("memory", store, events, warn, on_written=lambda saved: None)
        if config.checkpoint is not None:
            self._starts = Starts(communicator, config.checkpoint)
            store = checkpoints.Store(
                config.checkpoint,
                fence=self._starts.fence,
                keep_last=config.keep,
                keep_every=config.keep_every,
                keep_best=config.keep_best,
            )
            self.files = Tier("files", store, events, warn, on_written=self._on_file)
        if self.is_on:
            self.earlier_fits = EarlierFitStore(
                communicator,
                files=config.checkpoint,
                memory=config.memory,
                fence=None if self.files is None else self._starts.fence,
                warn=warn,
            )

    def start(self) -> checkpoints.Snapshot | None:
        """Make the directories, and find the snapshot to continue from; collective.

        Raises:
            InputError: on every rank, if the directory of files cannot be used.
        """
        self.join()
        newest = newest_common_snapshot(
            self._communicator,
            files=None if self.files is None else self.files.store,
            memory=None if self.memory is None else self.memory.store,
        )
        if self.files is not None:
            self._starts.count()
        return newest

    def join(self) -> None:
        """Make the directory in memory; local; for a rank that joins a running run."""
        for tier in (self.memory, self.files):
            if tier is not None:
                tier.reset_clock()
        if self.memory is not None:
            try:
                checkpoints.private_directory(self.memory.store.directory)
                self.memory.store.prepare()
            except checkpoints.StorageError as error:
                self._warn(f"no checkpoints in memory on this host: {error}")
                self.memory = None

    @property
    def is_on(self) -> bool:
        """Whether there is any tier to save to."""
        return self.files is not None or self.memory is not None

    @property
    def numbers(self) -> list[int]:
        """Numbers of saves of each tier, by which ranks take turns, and of this start; equal on all
        ranks."""
        counts = [0 if tier is None else tier.number for tier in (self.memory, self.files)]
        return [*counts, 0 if self.files is None else self._starts.number]

    @numbers.setter
    def numbers(self, numbers: list[int]) -> None:
        *counts, start = numbers
        for tier, number in zip((self.memory, self.files), counts, strict=True):
            if tier is not None:
                tier.number = number
        if self.files is not None:
            self._starts.number = start

    def has_file(self) -> bool:
        """Whether there is a checkpoint of any step in ``--checkpoint``; local."""
        try:
            return self.files is not None and bool(self.files.store.list())
        except checkpoints.StorageError:
            return False

    def is_stale(self) -> bool:
        """Whether another start of the run writes checkpoints by now; local."""
        try:
            return self.files is not None and not self._starts.fence.passes()
        except checkpoints.StorageError:
            return False

    def expect_bytes(self, nbytes: int) -> None:
        """Set the total size of weights and optimizer, equal on all ranks.

        It comes before the first save.
        """
        self._nbytes = nbytes

    # Between steps.

    def due(self) -> int:
        """Tiers that are due by the clock after the next step, as bits; local."""
        memory, files = self.memory, self.files
        bits = 0
        if memory is not None and memory.is_due(self._config.memory_every):
            bits |= MEMORY
        if files is not None and files.is_due(self._interval.seconds(self._nbytes)):
            bits |= FILES
        return bits

    def save(self, bits: int, make_state: MakeState, *, patient: bool = False) -> None:
        """Save the state between two steps into the tiers of *bits*, the same on all ranks; local.

        Args:
            make_state: function that holds the state; called if this rank must write.
            patient: return when the file is written; the other ranks wait in the next step.
        """
        world = self._communicator.world
        chosen: list[tuple[Tier, checkpoints.Team | None]] = []
        memory, files = self.memory, self.files
        if memory is not None and bits & MEMORY:
            if writes_for_host(memory.number, world.members, world.rank):
                chosen.append((memory, None))
            memory.count()
        if files is not None and bits & FILES:
            team, writes = self._team(files, writer_for_run(files.number, world.members))
            if writes:
                chosen.append((files, team))
            files.count()
        if chosen:
            began = time.monotonic()
            held = make_state()
            if self._nbytes > _HELD_BYTES:
                held.copied()
            self._interval.note_cost(time.monotonic() - began)
            for tier, team in chosen:
                if patient and tier is files:
                    tier.writer.save_now(held.snapshot(), team)
                else:
                    tier.writer.save(held.copied, team)

    def save_for_all(self, make_state: MakeState) -> bool:
        """Save to a file, and return whether it was written; collective.

        The leader publishes. One that dies over it is followed by the next.
        """
        files = self.files
        if files is None:
            return False
        done = np.zeros(1, np.int64)
        while not done[0]:
            self._before_attempt()
            world = self._communicator.world
            team, writes = self._team(files, world.leader)
            files.count()
            if writes:
                saved = files.writer.save_now(make_state().snapshot(), team)
                if world.is_leader:
                    done[0] = 1 if saved.error is None else 2
            self._communicator.broadcast(done)
        return bool(done[0] == 1)

    def _team(self, tier: Tier, first: int) -> tuple[checkpoints.Team | None, bool]:
        """The team for the next save of *tier*, which *first* publishes; whether this rank writes.

        The team is equal on all ranks but for the place in it; None where one rank writes alone.
        """
        communicator, world = self._communicator, self._communicator.world
        part_mb, most = self._config.checkpoint_part_mb, world.size
        if part_mb is None:
            part_mb, most = _PART_MB, world.host_count
        size = team_size(self._nbytes, part_mb * 1e6, most)
        ranks = writer_group(first, world.members, size)
        if world.rank not in ranks:
            return None, False
        if size == 1:
            return None, True
        together = [member for member in world.members if member.rank in ranks]
        (publisher,) = (member for member in together if member.rank == first)
        near = [member.pid for member in together if member.shares_ids_with(world.me)]

        def over() -> bool:
            gone = not set(ranks) <= set(communicator.world.ranks)
            return gone or not all(Path(f"/proc/{pid}").exists() for pid in near)

        tag = f"{checkpoints.tag_of(publisher.host, publisher.pid)}.{tier.number}"
        team = checkpoints.Team(place=ranks.index(world.rank), size=size, tag=tag, over=over)
        return team, True

    def close(self) -> None:
        """Finish the current writes; local."""
        for tier in (self.memory, self.files):
            if tier is not None and not tier.writer.close(_DRAIN_S):
                self._warn(f"gave up waiting for the last checkpoint in {tier.store.directory}")

    def discard_memory(self) -> None:
        """Remove this host's files in memory; local, after `close` on all of its ranks."""
        if self.memory is not None:
            checkpoints.discard(self.memory.store.directory)

    def _on_file(self, saved: checkpoints.Saved) -> None:
        """Record that a file, or this rank's part of it, was written; in the writing thread."""
        self._on_saved(saved.seconds)
        self._interval.note_cost(saved.busy_s)
