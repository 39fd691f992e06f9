"""Two levels of centres over real messages: what they become, and what goes between nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ft
from matex.strategies import (
    AllAtOnce,
    CentreRule,
    CentreStrategy,
    DownpourRule,
    ElasticRule,
    InTurn,
    nodes_by,
)
from matex.strategies.rules.nodes import nodes_of
from tests.mpi.vectors import Vector


def elastic_tree(size: int, steps: int, every: int, outer: int) -> tuple[np.ndarray, np.ndarray]:
    """Workers and the upper centre, by the published equations; rank r is drawn to r."""
    nodes = nodes_of([(rank, "") for rank in range(size)], 2)
    x = np.tile(np.arange(5.0), (size, 1))
    centres, top = np.tile(np.arange(5.0), (len(nodes), 1)), np.arange(5.0)

    def meet() -> None:
        for j, node in enumerate(nodes):
            apart = 0.9 / len(node) * (x[node] - centres[j])
            x[node] -= apart
            centres[j] += apart.sum(0)

    def meet_above() -> np.ndarray:
        weights = np.array([len(node) / size for node in nodes])[:, None]
        apart = 0.9 * weights * (centres - top)
        centres[:] = centres - apart
        return np.asarray(top + apart.sum(0))

    for step in range(steps):
        x += 0.1 * (np.arange(size)[:, None] - x)
        if (step + 1) % every == 0:
            meet()
        if (step + 1) % (every * outer) == 0:
            top = meet_above()
    workers = x.copy()
    meet()  # the consensus
    return workers, meet_above()


def test_synchronous_levels_are_those_of_the_paper(comm: ft.Communicator) -> None:
    vector, rank, size = Vector(), comm.world.rank, comm.world.size
    topology = AllAtOnce(every=2, nodes=nodes_by(comm, 2), outer=3)
    strategy = CentreStrategy(comm, vector, ElasticRule(), topology)
    for step in range(15):
        strategy.before_step(step)
        vector.value[:5] += 0.1 * (rank - vector.value[:5])
        comm.barrier()
        strategy.after_step(step)
    if size > 2:  # else there is one node, and one level
        workers, top = elastic_tree(size, 15, every=2, outer=3)
        np.testing.assert_allclose(vector.value[:5], workers[rank], atol=1e-12)
        strategy.consensus()
        np.testing.assert_allclose(vector.value[:5], top, atol=1e-12)


def test_one_node_has_one_level(comm: ft.Communicator) -> None:
    """Both are equal to the last bit, in turn and all at once."""
    for rule, topology in KINDS.values():
        models = []
        for nodes in (nodes_by(comm, 8), None):
            vector = Vector()
            strategy = CentreStrategy(comm, vector, rule, topology(nodes=nodes))
            for step in range(11):
                strategy.before_step(step)
                vector.value[:5] += comm.world.rank
                comm.barrier()
                strategy.after_step(step)
            strategy.consensus()
            models.append(vector.value)
        np.testing.assert_array_equal(*models)


def test_levels_in_turn_keep_the_sum_of_workers_and_centres(comm: ft.Communicator) -> None:
    """It is kept when all pushes are done and nobody moves."""
    vector, size, rank = Vector(), comm.world.size, comm.world.rank
    topology = InTurn(every=4, nodes=nodes_by(comm, 2), outer=2)
    strategy = CentreStrategy(comm, vector, ElasticRule(), topology)
    for step in range(2 + 8 * 10):
        strategy.before_step(step)
        if step == 0:
            vector.value = vector.value + rank
        comm.barrier()
        strategy.after_step(step)
    if size < 3:
        return
    exchange = strategy.exchange
    assert exchange is not None and exchange.node_centre is not None
    tops = comm.allgather(exchange.state).rows
    nodes = comm.allgather(exchange.node_centre).rows
    workers = comm.allgather(vector.value[:5]).rows
    total = workers.sum(0) + nodes[::2].sum(0) + tops[0]
    count = size + len(nodes[::2]) + 1
    np.testing.assert_allclose(total, count * np.arange(5.0) + size * (size - 1) / 2, atol=1e-9)
    assert np.ptp(workers[:, 0]) < 0.5 * (size - 1)


def test_no_push_of_a_level_is_lost_or_counted_twice(comm: ft.Communicator) -> None:
    """All move alike. Nodes of two push twice their mean, and their mean goes up."""
    vector, size = Vector(), comm.world.size
    topology = InTurn(every=2, nodes=nodes_by(comm, 2), outer=2)
    strategy = CentreStrategy(comm, vector, DownpourRule(), topology)
    for step in range(41):
        strategy.before_step(step)
        vector.value[:5] += 1.0
        comm.barrier()
        strategy.after_step(step)
    strategy.consensus()
    moved = vector.value[0]
    if size == 1:
        assert moved == 41
    elif size % 2:  # of unequal nodes
        assert 41 <= moved <= 2 * 41 + 8
    else:
        assert 2 * 41 - 8 <= moved <= 2 * 41 + 8


KINDS: dict[str, tuple[CentreRule, type[AllAtOnce | InTurn]]] = {
    "easgd": (ElasticRule(), AllAtOnce),
    "easgd-async": (ElasticRule(), InTurn),
    "downpour": (DownpourRule(), InTurn),
    "downpour-sync": (DownpourRule(), AllAtOnce),
}


@pytest.mark.parametrize("name", ["easgd-async", "downpour"])
def test_between_nodes_go_few_messages(
    name: str, comm: ft.Communicator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted where MPI is called, by the bytes that each message has, and where it goes."""
    rank, size = comm.world.rank, comm.world.size
    sent: list[tuple[int, int]] = []

    class Counted:
        def __init__(self, handle: Any) -> None:
            self._handle = handle

        def Isend(self, buffer: np.ndarray, dest: int, tag: int) -> Any:
            sent.append((dest, buffer.nbytes))
            return self._handle.Isend(buffer, dest=dest, tag=tag)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._handle, name)

    monkeypatch.setattr(comm._membership, "handle", Counted(comm.handle))
    rule, topology = KINDS[name]
    between = {}
    for levels in (1, 2):
        nodes = nodes_by(comm, 2) if levels == 2 else None
        strategy = CentreStrategy(comm, Vector(), rule, topology(every=2, nodes=nodes))
        sent.clear()
        counted = messages = 0
        for step in range(64):
            strategy.before_step(step)
            comm.barrier()
            strategy.after_step(step)
            messages += strategy.traffic.messages
            counted += strategy.traffic.bytes
        assert (messages, counted) == (len(sent), sum(size for _, size in sent))
        away = [nbytes for to, nbytes in sent if to // 2 != rank // 2]
        between[levels] = comm.allgather(np.array([len(away), sum(away)])).rows.sum(0)
        strategy.consensus()
    others, other_nodes = size - min(2, size), -(-size // 2) - 1
    # There and back, of five weights and a version: in the last steps some are on their way.
    whole = {1: 2 * others * 32, 2: 2 * other_nodes * 8}
    for levels, count in whole.items():
        assert count - 2 * others <= between[levels][0] <= count
        assert between[levels][1] == 48 * between[levels][0]
