"""Strategies over real messages and plain vectors: one model in the end, the mean kept, counted."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import ft
from matex.strategies import Elastic, Gossip, ReplicaLike, Strategy

Make = Callable[[ft.Communicator, ReplicaLike], Strategy]

STRATEGIES: dict[str, Make] = {
    "gossip": lambda comm, replica: Gossip(comm, replica, seed=7),
    "easgd": lambda comm, replica: Elastic(comm, replica, tau=3),
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
        strategy.before_step(step)
        move(vector, comm.world.rank)
        comm.barrier()  # in place of the step's collective
        strategy.after_step(step)
        if step % 30 == 29:
            strategy.consensus()
            rows = comm.allgather(vector.value).rows
            assert (rows == rows[0]).all()
    np.testing.assert_allclose(vector.value, (comm.world.size - 1) / 2, atol=0.05)
    if comm.world.size > 1:
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
