"""Sums along the tree over virtual workers: exact, in pieces, and never of a part of the ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ft
from matex.exchange import Header, Layout
from matex.exchange.layout import Segment
from matex.exchange.tree import TreeExchange
from matex.partition.spans import split
from matex.partition.worker_tree import Node, folded, maximal

WORKERS = 11
LAYOUT = Layout(
    gradients=(Segment("gradient", (37, 5), "float32"),),
    means=(),
    sums=(Segment("count", (3,), "float32"),),
)


def exchange_of(comm: ft.Communicator) -> TreeExchange:
    return TreeExchange(comm, LAYOUT, faults=ft.Injector((), rank=comm.world.rank))


def vector_of(worker: int) -> np.ndarray:
    """The contribution of a worker, whose sums depend on their order."""
    parts = [np.random.default_rng(worker).normal(size=shape) for shape in LAYOUT.shapes]
    return LAYOUT.packed(parts)


def summed(exchange: TreeExchange, comm: ft.Communicator) -> list[np.ndarray]:
    """Sums of this rank and the others, of which the last ones have more workers."""
    cuts = split((0, WORKERS), comm.world.size)
    nodes = [maximal(range(lo, hi), WORKERS) for lo, hi in cuts]
    lo, hi = cuts[comm.world.place]
    leaves: dict[Node, Any] = {(0, worker): vector_of(worker) for worker in range(lo, hi)}
    found = folded(leaves, WORKERS, np.add)
    exchange.begin(samples=WORKERS, fingerprint=0)
    header = Header(samples=float(hi - lo))
    own = {node: found[node] for node in nodes[comm.world.place]}
    exchange.exchange(own, header, nodes=nodes, workers=WORKERS)
    return [part.copy() for part in exchange.result()]


@pytest.mark.parametrize("most_bytes", [1 << 30, 100])
def test_a_sum_is_that_of_one_rank(
    comm: ft.Communicator, monkeypatch: pytest.MonkeyPatch, most_bytes: int
) -> None:
    """The bits are equal, also where a vector is too long for one call of MPI."""
    monkeypatch.setattr("ft.pieces._MOST_BYTES", most_bytes)
    gradient, auxiliary = summed(exchange_of(comm), comm)
    whole = folded({(0, w): vector_of(w) for w in range(WORKERS)}, WORKERS, np.add)
    (total,) = whole.values()
    np.testing.assert_array_equal(gradient, LAYOUT.views(total)[0])
    np.testing.assert_array_equal(auxiliary[:3], LAYOUT.views(total)[1][:3])
    assert Header(*auxiliary[3:].tolist()).ranks == comm.world.size


def test_no_call_moves_more_than_it_may(
    comm: ft.Communicator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counts beyond 2^31 elements fit no call."""
    most_bytes, sizes = 2000, []

    class Counted:
        def __init__(self, handle: Any) -> None:
            self._handle = handle

        def Alltoallv(self, send: list[Any], received: list[Any]) -> None:
            sizes.extend([send[0].nbytes, received[0].nbytes])
            self._handle.Alltoallv(send, received)

        def Allgather(self, send: np.ndarray, received: np.ndarray) -> None:
            sizes.append(received.nbytes)
            self._handle.Allgather(send, received)

    monkeypatch.setattr("ft.pieces._MOST_BYTES", most_bytes)
    exchange = exchange_of(comm)
    monkeypatch.setattr(comm._membership, "handle", Counted(comm.handle))
    summed(exchange, comm)
    headers = 4 * len(Header._fields) * comm.world.size
    assert max(sizes) <= most_bytes + headers


def test_a_message_that_is_lost_fails_the_sum_on_every_rank(
    comm: ft.Communicator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MPI may report a rank's death as success to one rank, whose share is wrong then."""
    if not comm.ulfm or comm.world.size == 1:
        pytest.skip("repair wants ULFM, and others")

    class Lossy:
        def __init__(self, handle: Any) -> None:
            self._handle = handle

        def Alltoallv(self, send: list[Any], received: list[Any]) -> None:
            self._handle.Alltoallv(send, received)
            if comm.world.place == 0:
                received[0][-received[1][-1] :] = 0  # all that came from the last rank

        def __getattr__(self, name: str) -> Any:
            return getattr(self._handle, name)

    exchange, failed = exchange_of(comm), False
    before = summed(exchange, comm)[0]
    with monkeypatch.context() as patched:
        patched.setattr(comm._membership, "handle", Lossy(comm.handle))
        try:
            summed(exchange, comm)
        except ft.PeerFailure:
            failed = True
    is_open = failed and not comm.recover().finished
    assert comm.agree(is_open)
    np.testing.assert_array_equal(summed(exchange, comm)[0], before)
