"""Strategies over real messages and plain vectors: one model in the end, the mean kept, counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ft
from matex.strategies import Daso, Downpour, Elastic, Gossip, ReplicaLike, Strategy, nodes_by
from matex.strategies.ring import ring_mean, ring_traffic
from tests.mpi.operations import add_up
from tests.mpi.vectors import Vector

Make = Callable[[ft.Communicator, ReplicaLike], Strategy]

STRATEGIES: dict[str, Make] = {
    "gossip": lambda comm, replica: Gossip(comm, replica, seed=7),
    "easgd": lambda comm, replica: Elastic(comm, replica, every=3),
    "easgd-async": lambda comm, replica: Elastic(comm, replica, every=3, asynchronous=True),
    "downpour": Downpour,
    "downpour-sync": lambda comm, replica: Downpour(comm, replica, every=3, bound=0),
    "downpour-each-step": lambda comm, replica: Downpour(comm, replica, every=1),
    "downpour-momentum": lambda comm, replica: Downpour(comm, replica, bound=1, momentum=0.6),
    **{
        f"{name}-two-level": (
            lambda comm, replica, kind=kind, given=given: kind(
                comm, replica, nodes=nodes_by(comm, 2), outer=2, **given
            )
        )
        for name, kind, given in (
            ("easgd", Elastic, {"every": 3}),
            ("easgd-async", Elastic, {"every": 3, "asynchronous": True}),
            ("downpour", Downpour, {}),
            ("downpour-sync", Downpour, {"every": 3, "bound": 0, "momentum": 0.3}),
            ("downpour-momentum", Downpour, {"every": 1, "bound": 1, "momentum": 0.6}),
        )
    },
    "daso": lambda comm, replica: Daso(comm, replica, epochs=3, ranks_per_node=2),
}


def move(vector: Vector, target: float) -> None:
    vector.value = vector.value + 0.1 * (target - vector.value)


@pytest.fixture(params=STRATEGIES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a_rank_that_is_one_operation_behind_waits_for_nobody(
    name: str, comm: ft.Communicator
) -> None:
    """Nobody died, and what comes between the operations is behind the others already."""
    fails = {3: comm.world.ranks[0], 4: comm.world.ranks[0], 10: comm.world.ranks[-1]}
    vector = Vector()
    strategy = STRATEGIES[name](comm, vector)
    strategy.epoch_begins(1)  # for DASO not one of those that average everything
    for step in range(14):
        strategy.before_step(step)
        add_up(comm, fails=fails.get(step) == comm.world.rank)
        move(vector, comm.world.rank)
        strategy.after_step(step)
    strategy.consensus()
    found = comm.allgather(vector.value)
    assert all(np.array_equal(row, found.rows[0]) for row in found.rows)


def test_ranks_with_data_of_their_own_find_the_common_optimum(
    name: str, comm: ft.Communicator
) -> None:
    """Each is drawn to its own rank's number: the one model is near the mean of them."""
    vector = Vector()
    strategy = STRATEGIES[name](comm, vector)
    for step in range(120):
        if step % 40 == 0:
            strategy.epoch_begins(step // 40)
        strategy.before_step(step)
        move(vector, comm.world.rank)
        comm.barrier()  # in place of the step's collective
        strategy.after_step(step)
        if step % 40 == 39:
            strategy.consensus()
            rows = comm.allgather(vector.value).rows
            assert (rows == rows[0]).all()
    # A rank that is alone on its node is drawn harder than those of another.
    unequal = "two-level" in name and comm.world.size % 2
    tolerance = 0.1 if unequal else 0.05
    np.testing.assert_allclose(vector.value, (comm.world.size - 1) / 2, atol=tolerance)
    if comm.world.size > (2 if name == "daso" else 1):  # there two ranks are one node
        assert strategy.report()["disagreement"] > 0


def test_gossip_keeps_the_mean_and_sends_one_model(comm: ft.Communicator) -> None:
    vector = Vector()
    vector.value += comm.world.rank
    strategy = Gossip(comm, vector, seed=7)
    mean = comm.allgather(vector.value).rows.mean(0)
    for step in range(4):
        strategy.before_step(step)
        change = np.full(7, comm.world.rank * 0.5)
        vector.value = vector.value + change
        comm.barrier()
        strategy.after_step(step)
        mean = mean + comm.allgather(change).rows.mean(0)
        np.testing.assert_allclose(comm.allgather(vector.value).rows.mean(0), mean, atol=1e-12)
        assert strategy.traffic == ((1, 56) if comm.world.size > 1 else (0, 0))
    strategy.consensus()
    np.testing.assert_allclose(vector.value, mean, atol=1e-12)


def test_elastic_workers_meet_every_so_many_steps(comm: ft.Communicator) -> None:
    vector = Vector()
    strategy = Elastic(comm, vector, every=3)
    sent = []
    for step in range(6):
        strategy.before_step(step)
        move(vector, comm.world.rank)
        comm.barrier()
        strategy.after_step(step)
        sent.append(strategy.traffic.messages)
    assert sent == [0, 0, 1, 0, 0, 1]


def test_a_ring_gives_all_the_same_mean(comm: ft.Communicator) -> None:
    """Among all, and among the odd ranks and the even ones at a time; of lengths with a rest."""
    rank, ranks = comm.world.rank, comm.world.ranks
    for number, group in enumerate((ranks, [r for r in ranks if r % 2 == rank % 2])):
        vector = np.arange(11.0) * (rank + 1)
        got = ring_mean(comm, group, vector, number=number)
        assert got is not None
        np.testing.assert_allclose(got, np.arange(11.0) * np.mean([r + 1 for r in group]))
        rows = comm.allgather(got)
        assert all((rows[r] == got).all() for r in group)
    pieces = 2 * (len(ranks) - 1)
    assert ring_traffic(len(ranks), vector) == (pieces, pieces * 8 * -(-11 // len(ranks)))


def test_nodes_of_daso_are_one_model_and_draw_together(comm: ft.Communicator) -> None:
    """Nodes part in the first step, and then do not move: each meeting halves their distance."""
    vector = Vector()
    strategy = Daso(comm, vector, epochs=3, ranks_per_node=2)
    strategy.epoch_begins(0)
    node, messages = comm.world.rank // 2, []
    for step in range(14):
        strategy.before_step(step)
        if step == 0:
            vector.value = vector.value + node + 0.1 * comm.world.rank
        comm.barrier()
        strategy.after_step(step)
        messages.append(strategy.traffic.messages)
        nodes = comm.allgather(vector.value)
        for rank in comm.world.ranks:
            np.testing.assert_array_equal(nodes[rank], nodes[rank // 2 * 2])
    size = comm.world.size
    if size in (2, 3, 4):
        assert max(messages) <= 3
        own = 2 if size != 3 or node == 0 else 0  # of the ring, in each step
        between = [3, 7, 11] if size > 2 else []
        sends = [m - own for m in messages]
        place = comm.world.rank % 2
        wanted = [
            int(step in between and (not own or (step + 1) // 4 % 2 == place)) for step in range(14)
        ]
        assert sends == wanted
    if size == 4:
        start = np.array([0.05, 1.25])
        gap = float(nodes[2][0] - nodes[0][0])
        assert gap == pytest.approx((start[1] - start[0]) / 8, rel=0.02)
        assert vector.value[0] == pytest.approx(start.mean() + (node - 0.5) * gap, abs=0.01)
    strategy.consensus()
    assert len({row.tobytes() for row in comm.allgather(vector.value).rows}) == 1


def test_the_first_epochs_of_daso_average_everything(comm: ft.Communicator) -> None:
    vector = Vector()
    strategy = Daso(comm, vector, epochs=5, ranks_per_node=2)
    strategy.epoch_begins(0)
    strategy.before_step(0)
    vector.value = vector.value + comm.world.rank
    comm.barrier()
    strategy.after_step(0)
    mean = np.arange(7) + (comm.world.size - 1) / 2
    np.testing.assert_allclose(vector.value, mean)
    assert strategy.traffic == (1, 56)


def test_pushes_of_downpour_come_in_turn_and_nothing_is_lost(comm: ft.Communicator) -> None:
    """Each rank moves by its own number in each step, so the centre tells which pushes it has."""
    vector, size, rank = Vector(), comm.world.size, comm.world.rank
    strategy = Downpour(comm, vector)
    sent = []
    for step in range(16):
        strategy.before_step(step)
        vector.value = vector.value + np.append(np.full(5, 10.0**-rank), [0, 0])
        comm.barrier()
        strategy.after_step(step)
        sent.append(strategy.traffic.messages)
        assert strategy.traffic.bytes == 48 * sent[-1]  # five weights and a version
    if size == 1:
        assert sum(sent) == 0
    elif rank:
        assert sum(sent) == 4
        assert [step % 4 for step in range(16) if sent[step]] == [(3 + rank * 4 // size) % 4] * 4
    strategy.consensus()
    rows = comm.allgather(vector.value).rows
    assert (rows == rows[0]).all()
    told = strategy.report()["staleness"]
    assert set(told) <= set(range(size))
    assert told[size - 1] >= sum(told.values()) - size * (size - 1) / 2
    assert strategy.report()["staleness"] == {}


def test_asynchronous_elastic_averaging_keeps_the_sum(comm: ft.Communicator) -> None:
    """Of the centre and the workers, when all visits have come home and nobody moves."""
    vector, size, rank = Vector(), comm.world.size, comm.world.rank
    strategy = Elastic(comm, vector, every=4, asynchronous=True)
    for step in range(2 + 4 * 10):
        strategy.before_step(step)
        if step == 0:
            vector.value = vector.value + rank
        comm.barrier()
        strategy.after_step(step)
    workers = comm.allgather(vector.value).rows
    start = np.arange(7.0)
    if size > 1:
        assert np.ptp(workers[:, 0]) < 0.5 * (size - 1)
    strategy.consensus()  # keeps the sum of all, too: and then every worker is the centre
    assert start[0] - 1e-9 <= vector.value[0] <= start[0] + size - 1


def test_a_worker_of_eamsgd_is_pulled_where_it_is_and_not_where_it_looks(
    comm: ft.Communicator,
) -> None:
    class Momentum(Vector):
        weights = 3

        def __init__(self) -> None:
            self.value = np.array([0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 9.0])

    vector = Momentum()
    strategy = Elastic(comm, vector, every=1, nesterov=0.5)
    strategy.before_step(0)
    comm.barrier()
    strategy.after_step(0)
    alpha = 0.9 / comm.world.size
    np.testing.assert_allclose(vector.value[:3], alpha * 0.5 * np.array([1.0, 2.0, 3.0]))
    np.testing.assert_array_equal(vector.value[3:], [1, 2, 3, 9])


def test_gossip_sends_one_model_and_receives_one_in_each_step(
    comm: ft.Communicator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted where MPI is called, by the bytes that each message has."""
    calls: list[tuple[str, int]] = []

    class Counted:
        def __init__(self, handle: Any) -> None:
            self._handle = handle

        def Isend(self, buffer: np.ndarray, **where: int) -> Any:
            calls.append(("sent", buffer.nbytes))
            return self._handle.Isend(buffer, **where)

        def Irecv(self, buffer: np.ndarray, **where: int) -> Any:
            calls.append(("received", buffer.nbytes))
            return self._handle.Irecv(buffer, **where)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._handle, name)

    monkeypatch.setattr(comm, "_comm", Counted(comm.handle))
    vector, size = Vector(), comm.world.size
    vector.value += comm.world.rank
    strategy = Gossip(comm, vector, seed=7)
    rounds = (size - 1).bit_length()
    for step in range(3 * rounds):
        calls.clear()
        strategy.before_step(step)
        comm.barrier()
        strategy.after_step(step)
        assert sorted(calls) == [("received", 56), ("sent", 56)]
        if step + 1 == rounds and size == 1 << rounds:
            np.testing.assert_allclose(vector.value, np.arange(7) + (size - 1) / 2, atol=1e-14)
    strategy.consensus()
    np.testing.assert_allclose(vector.value, np.arange(7) + (size - 1) / 2, atol=1e-12)
