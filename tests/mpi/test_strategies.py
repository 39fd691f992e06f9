"""Strategies over real messages and plain vectors: one model in the end, the mean kept, counted."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import ft
from matex.strategies import Daso, Elastic, Gossip, ReplicaLike, Strategy
from matex.strategies.ring import ring_mean, ring_traffic

Make = Callable[[ft.Communicator, ReplicaLike], Strategy]

STRATEGIES: dict[str, Make] = {
    "gossip": lambda comm, replica: Gossip(comm, replica, seed=7),
    "easgd": lambda comm, replica: Elastic(comm, replica, tau=3),
    "daso": lambda comm, replica: Daso(comm, replica, epochs=3, ranks_per_node=2),
}


class Vector:
    """A model of five weights and a momentum of two numbers."""

    weights = 5

    def __init__(self) -> None:
        self.value = np.arange(7, dtype=np.float64)

    def read(self) -> np.ndarray:
        return self.value.copy()

    def write(self, vector: np.ndarray) -> None:
        self.value = vector.copy()


def move(vector: Vector, target: float) -> None:
    vector.value = vector.value + 0.1 * (target - vector.value)


@pytest.fixture(params=STRATEGIES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_ranks_with_data_of_their_own_find_the_common_optimum(
    name: str, comm: ft.Communicator
) -> None:
    """Each is drawn to its own rank's number: the one model is near the mean of them."""
    vector = Vector()
    strategy = STRATEGIES[name](comm, vector)
    for step in range(90):
        if step % 30 == 0:
            strategy.epoch_begins(step // 30)
        strategy.before_step(step)
        move(vector, comm.world.rank)
        comm.barrier()  # in place of the step's collective
        strategy.after_step(step)
        if step % 30 == 29:
            strategy.consensus()
            rows = comm.allgather(vector.value).rows
            assert (rows == rows[0]).all()
    np.testing.assert_allclose(vector.value, (comm.world.size - 1) / 2, atol=0.05)
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
    strategy = Elastic(comm, vector, tau=3)
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
    assert max(messages) <= 3
    size = comm.world.size
    if size in (2, 3, 4):
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
