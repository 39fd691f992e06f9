"""Rows that each rank holds in memory, and hands on to the next rank of a ring.

The asynchronous ring shuffle of GossipGraD (Daily et al., arXiv:1803.05880): rows that a rank has
trained on go to the rank that trains on them in the next epoch, while the next step is computed.
Data are read from their source once; rows lost by a death are read again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import ft
from matex.data import Batches
from matex.data.prefetch import Prefetch
from matex.data.row_store import Form, RowStore
from matex.errors import InputError
from matex.partition.ring_order import pack_geometry, ring_visits, sharers, unpack_geometry
from matex.partition.spans import Span
from matex.sources.interface import GlobalBatch, RowSource
from matex.sources.row_exchange import RowExchange

__all__ = ["RingRows"]


class _Arrays(NamedTuple):
    """*batches* as a source of arrays for :class:`Prefetch`."""

    batches: Batches

    @property
    def costly(self) -> bool:
        return self.batches.costly

    def rows(self, indices: np.ndarray) -> list[np.ndarray]:
        return self.batches.arrays(indices)


class _EpochPlan(NamedTuple):
    """An epoch's order, and the place of the rank that computes each row."""

    epoch: int
    visits: np.ndarray
    place_of: np.ndarray


class RingRows(RowSource):
    """Rows known by number, in ring order; each rank holds about its own part of them.

    The next user of a row follows from the order and the members, so all ranks know, without
    communication, which rows to send and to expect. ``digest`` is the packed geometry of the order.

    Args:
        epochs: number of epochs of the fit; after the last one no rows are passed on.
        shuffle: argument of ``fit``.
        seed: number from which the orders follow.
        batch_size, multiplier: see :class:`RowSource`.

    Raises:
        InputError: on every rank, if there is nothing to shuffle.
    """

    def __init__(
        self,
        batches: Batches,
        communicator: ft.Communicator,
        *,
        batch_size: int,
        shuffle: bool,
        seed: int,
        epochs: int,
        multiplier: Callable[[], int] = lambda: 1,
    ) -> None:
        if not shuffle:
            raise InputError(
                "shuffle ring is a way to shuffle. Received: fit(shuffle=False); "
                "leave one of them out"
            )
        super().__init__(
            batches,
            batch_size=batch_size,
            row_order=self._begin,
            order="ring",
            multiplier=multiplier,
        )
        self._seed = seed
        self._communicator = communicator
        self._epochs = epochs
        self._places = len(communicator.pending.expected)
        self._reader = Prefetch(_Arrays(batches))
        share = -(-batches.samples // self._places) + 2 * -(-self._batch_size // self._places)
        self._store = RowStore(
            batches.samples,
            [Form(tuple(table.shape[1:]), np.dtype(table.dtype)) for table in batches.tables],
            capacity=min(batches.samples, share),
        )
        self._passing = RowExchange(communicator, self._store)
        self._planned: tuple[tuple[int, ...], _EpochPlan] | None = None
        self._running: _EpochPlan | None = None
        self._resumed_width = 0
        self._expected: tuple[int, ...] = ()
        self._span: Span = (0, 0)
        self._read_from_source = self._came = 0
        self.digest = pack_geometry(self._places, self._batch_size)

    def resume(self, cursor: int, digest: int) -> None:
        places, width = unpack_geometry(digest)
        if (cursor and not digest) or width > self._batches.samples:
            other = "of other data" if digest else "without --shuffle ring"
            raise InputError(
                "a checkpoint is continued on the same data in the same order. Received: one "
                f"{other}, at sample {cursor}; train as it did, or give an empty checkpoint "
                "directory to start anew"
            )
        if digest:
            self._places, self.digest = places, digest
            self._resumed_width = width if cursor else 0

    def _begin(self, epoch: int) -> np.ndarray:
        """Begin *epoch*, and return the order in which it visits the rows."""
        width, self._resumed_width = self._resumed_width or self._batch_size, 0
        self.digest = pack_geometry(self._places, width)
        self._finish_transfers()
        plan = self._plan(epoch, width)
        held = self._store.numbers
        self._store.drop(held[plan.place_of[held] != self._place])  # others are here than planned
        self._running = plan
        return plan.visits

    @property
    def _place(self) -> int:
        """Place of this rank among the ranks that share the next step."""
        return self._communicator.pending.expected.index(self._communicator.world.rank)

    def _plan(self, epoch: int, width: int) -> _EpochPlan:
        """Plan of a later epoch for the current members; equal on all ranks unless one dies."""
        ranks, batch_size = len(self._communicator.pending.expected), self._batch_size
        key = (epoch, width, batch_size, ranks)
        if self._planned is None or self._planned[0] != key:
            samples = self._batches.samples
            visits = ring_visits(
                samples, seed=self._seed, epoch=epoch, places=self._places, width=width
            )
            place_of = np.empty(samples, np.int32)
            place_of[visits] = sharers(samples, batch_size, ranks)
            self._planned = key, _EpochPlan(epoch, visits, place_of)
        return self._planned[1]

    def _read(self, indices: np.ndarray, *, then: Callable[[], np.ndarray]) -> tuple[Any, ...]:
        missing = self._missing(indices)
        if len(missing):
            arrays = self._reader.rows(missing, then=lambda: self._missing(then()))
            self._store.put(missing, arrays)
            self._read_from_source += len(missing)
        return self._batches.tensors(self._store.take(indices))

    def _missing(self, indices: np.ndarray) -> np.ndarray:
        return indices[~self._store.holds(indices)]

    def next(self) -> GlobalBatch | None:
        self._expected = self._communicator.pending.expected
        batch = super().next()
        self._span = (0, 0) if batch is None else batch.span
        return batch

    def after_step(self, step: int) -> tuple[int, int]:
        """Pass on the rows of the step, and keep the rows that are this rank's again. Local."""
        self._finish_transfers()
        plan, (lo, hi) = self._running, self._span
        assert plan is not None
        rows = plan.visits[lo:hi]
        if plan.epoch + 1 >= self._epochs:
            self._store.drop(rows)
            return 0, 0
        pending = self._communicator.pending
        to = self._plan(plan.epoch + 1, self._batch_size).place_of[rows]
        mine, sent = self._place, (0, 0)
        # Where the others found a failure one operation later, they have been here, by the members
        # of before; rows of a step in which a death was found are with others than planned.
        if pending.expected == self._expected and not pending.p2p_unsafe:
            source = sharers(hi - lo, hi - lo, len(pending.expected))
            giving = _by_place(rows, to, (source == mine) & (to != mine), pending.expected)
            getting = _by_place(rows, source, (source != mine) & (to == mine), pending.expected)
            sent = len(giving), self._passing.begin(giving, getting, number=step)
        self._store.drop(rows[to != mine])
        return sent

    def _finish_transfers(self) -> None:
        self._came += self._passing.end()

    def report(self) -> dict[str, Any]:
        """Numbers of rows read and received, and the largest number held at a time.

        All ranks have finished the last step, so the wait is short.
        """
        self._finish_transfers()
        told = {"read": self._read_from_source, "came": self._came, "held": self._store.most}
        self._read_from_source = self._came = 0
        self._store.most = self._store.count
        return {"rows": told}

    def close(self) -> None:
        """Stop the thread that reads ahead, and end all messages."""
        self._finish_transfers()
        super().close()


def _by_place(
    rows: np.ndarray, places: np.ndarray, chosen: np.ndarray, ranks: tuple[int, ...]
) -> dict[int, np.ndarray]:
    """Rows of *rows* that are *chosen*, in order, by the rank at their place."""
    found = np.unique(places[chosen]).tolist()
    return {ranks[place]: rows[chosen & (places == place)] for place in found}
