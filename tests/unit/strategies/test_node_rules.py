"""Two levels of EASGD and Downpour beside plain code of the published equations, with deaths."""

from __future__ import annotations

import numpy as np
import pytest

from matex.strategies.centre.worker import CentreWorker, NodeWeights, RankWeights
from matex.strategies.downpour import DownpourRule
from matex.strategies.rules import elastic
from matex.strategies.rules.centre import Push
from matex.strategies.rules.nodes import (
    nodes_of,
    shares_of_all,
    shares_of_node,
    shares_of_nodes,
)

HOSTS = [(0, "a"), (1, "a"), (2, "a"), (3, "b"), (4, "b"), (5, "c")]
EVERY, OUTER = 2, 3


def test_shares_add_up_and_nodes_count_by_their_ranks() -> None:
    nodes = nodes_of([member for member in HOSTS if member[0] not in (0, 4)])
    assert shares_of_all([3, 7]) == {3: 0.5, 7: 0.5}
    assert shares_of_node(nodes, 2) == {1: 0.5, 2: 0.5}
    assert shares_of_nodes(nodes) == {1: 0.5, 3: 0.25, 5: 0.25}


def test_a_tree_of_elastic_averaging_is_that_of_the_paper_while_workers_and_nodes_die() -> None:
    """Ranks with copies of the centres, like the strategy's, agree with one loop over all."""
    rng = np.random.default_rng(2)
    start = rng.normal(size=4)
    alive = [rank for rank, _ in HOSTS]
    plain = {rank: start.copy() for rank in alive}
    plain_node, plain_top = {host: start.copy() for _, host in HOSTS}, start.copy()
    workers, centres = dict(plain), {rank: start.copy() for rank in alive}
    top = start.copy()
    deaths = {13: [1], 40: [0, 5], 77: [3, 4]}
    hosts = dict(HOSTS)
    for step in range(160):
        alive = [rank for rank in alive if rank not in deaths.get(step, [])]
        nodes = nodes_of([(rank, hosts[rank]) for rank in alive])
        for rank in alive:
            noise = rng.normal(size=4, scale=0.01)
            plain[rank] = plain[rank] - 0.1 * (plain[rank] - 1) + noise
            workers[rank] = workers[rank] - 0.1 * (workers[rank] - 1) + noise
        if step % EVERY == 0:
            for node in nodes:
                mean = np.mean([workers[rank] for rank in node], axis=0)
                for rank in node:
                    workers[rank], centres[rank] = elastic.pull_together(
                        workers[rank], mean, centres[rank], share=shares_of_node(nodes, rank)[rank]
                    )
                centre = plain_node[hosts[node[0]]]
                apart = {rank: 0.9 / len(node) * (plain[rank] - centre) for rank in node}
                for rank in node:
                    plain[rank] = plain[rank] - apart[rank]
                plain_node[hosts[node[0]]] = centre + sum(apart.values())
        if step % (EVERY * OUTER) == 0:
            mean, before = np.mean([centres[rank] for rank in alive], axis=0), top
            for node in nodes:
                share = shares_of_nodes(nodes)[node[0]]
                for rank in node:
                    centres[rank], top = elastic.pull_together(
                        centres[rank], mean, before, share=share
                    )
            pulls = {}
            for node in nodes:
                alpha = 0.9 * len(node) / len(alive)
                pulls[hosts[node[0]]] = alpha * (plain_node[hosts[node[0]]] - plain_top)
            for host, pull in pulls.items():
                plain_node[host] = plain_node[host] - pull
            plain_top = plain_top + sum(pulls.values())
        for rank in alive:
            np.testing.assert_allclose(workers[rank], plain[rank], atol=1e-13)
            np.testing.assert_allclose(centres[rank], plain_node[hosts[rank]], atol=1e-13)
        np.testing.assert_allclose(top, plain_top, atol=1e-13)
    assert alive == [2]
    np.testing.assert_allclose(top, 1, atol=0.1)


def test_what_single_workers_would_make_of_a_centre_has_its_mean() -> None:
    workers = np.random.default_rng(0).normal(size=(3, 5))
    centre = np.ones(5)
    single = [elastic.drawn(worker, centre) for worker in workers]
    np.testing.assert_allclose(np.mean(single, axis=0), elastic.drawn(workers.mean(0), centre))


@pytest.mark.parametrize("sizes", [(2, 2), (4, 4, 4), (1, 2)])
def test_all_centres_of_a_tree_must_be_moved(sizes: tuple[int, ...]) -> None:
    nodes, first = [], 0
    for size in sizes:
        nodes.append(list(range(first, first + size)))
        first += size
    points, centres, top = np.zeros(first), np.zeros(len(nodes)), np.zeros(())
    for step in range(600):
        points = points + 1.0
        for j, node in enumerate(nodes):
            points[node], centres[j] = elastic.pull_together(
                points[node], points[node].mean(), centres[j], share=1 / len(node)
            )
        if step % 2:
            shares = np.array([*shares_of_nodes(nodes).values()])
            mean, before = np.sum(shares * centres), top
            for j, share in enumerate(shares):
                centres[j], top = elastic.pull_together(centres[j], mean, before, share=share)
    assert top / 600 == pytest.approx(elastic.pace(first, len(nodes) + 1), rel=0.02)


RULE = DownpourRule()


class NodeCentre:
    """The centre of a node, by its state."""

    def __init__(self, weights: np.ndarray) -> None:
        self.state = np.concatenate([weights, weights])


class Vector:
    weights = 3

    def __init__(self) -> None:
        self.value = np.zeros(4)

    def read(self) -> np.ndarray:
        return self.value.copy()

    def write(self, vector: np.ndarray) -> None:
        self.value = vector.copy()


def meet(state: np.ndarray, come: list[tuple[CentreWorker, float]]) -> np.ndarray:
    """The centre after all of *come*, each with its share, have pushed at once."""
    pushes = [Push(worker.push(share), share, 0) for worker, share in come]
    state = RULE.serve(state, pushes, 1)[-1]
    for worker, _ in come:
        worker.apply(state)
    return state


def test_a_node_pushes_up_what_its_ranks_have_pushed_and_takes_down_what_the_others_did() -> None:
    """Nodes of two, and of one that dies; every rank moves by a power of ten in each step."""
    vectors, nodes = [Vector() for _ in range(3)], [[0, 1], [2]]
    ranks = [CentreWorker(RULE, RankWeights(vector, RULE)) for vector in vectors]
    held = [NodeCentre(np.zeros(3)) for _ in nodes]
    uppers = [CentreWorker(RULE, NodeWeights(centre, RULE)) for centre in held]
    top, wanted = np.zeros(3), 0.0
    for outer in range(6):
        if outer == 4:
            nodes = nodes[:1]
        shares = shares_of_nodes(nodes)
        for _ in range(2):
            for j, node in enumerate(nodes):
                for rank in node:
                    vectors[rank].value += 10.0**rank
                come = [(ranks[rank], 1 / len(node)) for rank in node]
                held[j].state = meet(held[j].state, come)
        wanted += 2 * sum(share * np.mean([10.0**r for r in node])
                          for share, node in zip(shares.values(), nodes, strict=True))  # fmt: skip
        top = meet(top, [(uppers[j], share) for j, share in enumerate(shares.values())])
        np.testing.assert_allclose(top, wanted)
        for j in range(len(nodes)):
            np.testing.assert_allclose(held[j].state, wanted)  # it, and where it last was


@pytest.mark.parametrize("told", [True, False])
def test_who_takes_a_nodes_centre_over_pushes_what_the_dead_server_has_not(told: bool) -> None:
    """It has the centre and where that was at the last push; a push that was served counts once,
    one that was on its way is made again by the server alone, who knows of it."""
    centre = NodeCentre(np.zeros(3))
    upper = CentreWorker(RULE, NodeWeights(centre, RULE))
    centre.state = centre.state + np.array([5.0, 5, 5, 0, 0, 0])  # its ranks pushed
    moved = upper.push(1.0)
    np.testing.assert_array_equal(moved, 5)
    centre.state = centre.state + np.array([2.0, 2, 2, 0, 0, 0])
    successor = NodeCentre(np.zeros(3))
    successor.state = centre.state.copy()
    if told:  # nobody had looked at it
        upper.cancel(moved)
        successor.state = centre.state.copy()
    else:
        upper.cancel(None)
    next_worker = CentreWorker(RULE, NodeWeights(successor, RULE))
    next_worker.cancel(None)
    next_worker.reset(np.full(3, 100.0))
    unpushed = 7 if told else 2
    np.testing.assert_array_equal(successor.state, [100.0 + unpushed] * 3 + [100] * 3)
    np.testing.assert_array_equal(next_worker.push(1.0), unpushed)
