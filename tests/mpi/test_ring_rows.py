"""Rows that go around: the same as the source has, each read there once, held by one rank."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ft
from matex.data import Batches
from matex.data.rows import Memory
from matex.errors import InputError
from matex.partition.order import Order
from matex.partition.ring_order import pack_geometry, ring_visits
from matex.partition.spans import assigned
from matex.sources.ring_rows import RingRows
from tests.mpi.operations import add_up

EPOCHS = 4


class Counted(Memory):
    """An array whose rows are counted as they are read."""

    def __init__(self, array: np.ndarray) -> None:
        super().__init__(array)
        self.read = np.zeros(len(array), np.int64)

    def rows(self, indices: np.ndarray) -> np.ndarray:
        np.add.at(self.read, indices, 1)
        return super().rows(indices)


def data(samples: int) -> tuple[dict[str, Any], np.ndarray]:
    generator = np.random.default_rng(5)
    x = {"a": Counted(generator.normal(size=(samples, 3, 2)).astype(np.float32)),
         "b": generator.integers(0, 255, (samples, 5)).astype(np.uint8)}  # fmt: skip
    return x, generator.integers(0, 3, samples)


def ring(comm: ft.Communicator, samples: int, batch_size: int) -> tuple[RingRows, Batches, Counted]:
    x, y = data(samples)
    batches = Batches(x, y, class_weight={1: 2.0})
    rows = RingRows(batches, comm, batch_size=batch_size, shuffle=True, seed=3, epochs=EPOCHS)
    return rows, Batches(*data(samples), class_weight={1: 2.0}), x["a"]


def wanted_order(
    samples: int, batch_size: int, *, epoch: int, places: int, width: int | None = None
) -> Order:
    rows = ring_visits(samples, seed=3, epoch=epoch, places=places, width=width or batch_size)
    return Order(visits=rows, batch_size=batch_size)


@pytest.mark.parametrize(("samples", "batch_size"), [(48, 12), (101, 10), (50, 7), (9, 2)])
def test_each_row_is_read_once_by_one_rank(
    comm: ft.Communicator, samples: int, batch_size: int
) -> None:
    rows, wanted, counted = ring(comm, samples, batch_size)
    rank, ranks = comm.world.rank, comm.world.ranks
    step = 0
    for epoch in range(EPOCHS):
        order = wanted_order(samples, batch_size, epoch=epoch, places=len(ranks))
        computed = 0
        for _ in rows.epoch(epoch, 0, 1):
            batch = rows.next()
            assert batch is not None
            spans = assigned(batch.span, ranks, (), rank)
            computed += sum(hi - lo for lo, hi in spans)
            if spans:
                found, same = batch.rows(spans), wanted.rows(order.indices(spans))
                for mine, theirs in zip(
                    (*found[0].values(), *found[1:]), (*same[0].values(), *same[1:]), strict=True
                ):
                    np.testing.assert_array_equal(mine, theirs)
            comm.barrier()  # in place of the step's collective
            messages, nbytes = rows.after_step(step)
            assert (messages > 0) == (nbytes > 0)
            step += 1
        told = rows.report()["rows"]
        everybody = comm.allgather(np.array([told["read"], computed])).rows
        assert everybody.sum(0).tolist() == [0 if epoch else samples, samples]
        slack = 3 + 2 * (samples // batch_size if batch_size % len(ranks) else 0)
        assert told["held"] <= computed + slack + -(-batch_size // len(ranks))
    rows.close()
    assert (comm.allgather(counted.read).rows.sum(0) == 1).all()


@pytest.mark.parametrize(
    ("cursor", "digest", "said"),
    [
        (10, 0, "one without --shuffle ring, at sample 10"),
        (0, pack_geometry(3, 1 << 40), "one of other data, at sample 0"),
    ],
)
def test_a_checkpoint_of_another_order_is_refused(
    comm: ft.Communicator, cursor: int, digest: int, said: str
) -> None:
    rows, _, _ = ring(comm, 48, 12)
    with pytest.raises(InputError, match=said):
        rows.resume(cursor, digest)
    rows.close()


def test_an_epoch_is_continued_as_it_was_laid_out(comm: ft.Communicator) -> None:
    """The checkpoint is one of five ranks after two steps of 8; the next epoch has own steps."""
    rows, _, _ = ring(comm, 48, 12)
    rows.resume(16, pack_geometry(5, 8))
    for epoch, cursor, width in ((2, 16, 8), (3, 0, 12)):
        order = wanted_order(48, 12, epoch=epoch, places=5, width=width)
        spans = []
        for _ in rows.epoch(epoch, cursor, 1):
            batch = rows.next()
            assert batch is not None
            assert batch.fingerprint([batch.span]) == order.fingerprint([batch.span])
            spans.append(batch.span)
        assert spans == [(lo, min(lo + 12, 48)) for lo in range(cursor, 48, 12)]
        assert rows.digest == pack_geometry(5, width)
    rows.close()


def test_a_rank_alone_keeps_all(comm: ft.Communicator) -> None:
    """Nothing goes around among ranks that are one; others send what the next one needs."""
    rows, _, _ = ring(comm, 48, 12)
    sent = 0
    for step, _ in enumerate(rows.epoch(0, 0, 1)):
        batch = rows.next()
        assert batch is not None
        batch.rows(assigned(batch.span, comm.world.ranks, (), comm.world.rank))
        comm.barrier()
        sent += rows.after_step(step)[0]
    assert sent == (4 if comm.world.size > 1 else 0)
    assert rows.report()["rows"]["came"] == (48 // comm.world.size if comm.world.size > 1 else 0)
    rows.close()


def test_rows_for_a_rank_that_is_one_operation_behind_are_not_waited_for(
    comm: ft.Communicator,
) -> None:
    """Nobody died, and what comes between the operations is behind the others already."""
    fails = {1: comm.world.ranks[0], 6: comm.world.ranks[-1]}
    rows, wanted, _ = ring(comm, 48, 12)
    step = 0
    for epoch in range(EPOCHS):
        order = wanted_order(48, 12, epoch=epoch, places=comm.world.size)
        for _ in rows.epoch(epoch, 0, 1):
            batch = rows.next()
            assert batch is not None
            spans = assigned(batch.span, comm.world.ranks, (), comm.world.rank)
            found, same = batch.rows(spans), wanted.rows(order.indices(spans))
            np.testing.assert_array_equal(found[0]["a"], same[0]["a"])
            np.testing.assert_array_equal(found[1], same[1])
            add_up(comm, fails=fails.get(step) == comm.world.rank)
            rows.after_step(step)
            step += 1
        rows.report()
    rows.close()
