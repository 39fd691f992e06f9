"""Downpour SGD: workers bring a centre what they have moved, and go on from what it has become.

When they come, and what a push counts: :mod:`matex.strategies.rules.downpour`.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

import ft
from matex.strategies.centre import Centre, staleness_of_all
from matex.strategies.interface import ReplicaLike, Traffic
from matex.strategies.mean import distance, mean, meet
from matex.strategies.nodes import Nodes
from matex.strategies.pusher import NodeWeights, Pusher, RankWeights, updated_state
from matex.strategies.ring import ring_mean, ring_traffic
from matex.strategies.rules.nodes import OUTER
from matex.strategies.rules.turns import EVERY
from matex.strategies.tree import Tree

__all__ = ["Downpour"]


class Downpour:
    """The weights of one worker travel to the centre and back every few steps, while it computes.

    With a *bound* of 0 all meet at once, in one collective: each then has the centre, and
    nobody keeps it. The optimizer's state stays with its worker until a consensus, where it
    becomes the mean, as the weights do; the centre's momentum starts from nothing then.

    In two levels a node's centre is a worker of the upper one. With a *bound* of 0 the ranks of
    a node become their mean in the meetings between those of all.

    Args:
        replica: of this rank; equal on all when training starts.
        every: steps between the pushes of one worker; 1 is asynchronous SGD.
        bound: of the staleness of a push, in updates of the centre; None for any.
        momentum: of the updates of the centre, of two levels the upper one, together with what
            asynchrony adds by itself.
        nodes: of two levels; None for one. Where there is one node, there is one level, from
            the next consensus on.
        outer: as many times more steps are between the pushes of a node; 2 or more.
    """

    name = "downpour"
    sums_gradients = False

    def __init__(
        self,
        communicator: ft.Communicator,
        replica: ReplicaLike,
        *,
        every: int = EVERY,
        bound: int | None = None,
        momentum: float = 0.0,
        nodes: Nodes | None = None,
        outer: int = OUTER,
    ) -> None:
        self._communicator = communicator
        self._replica = replica
        self._every = every
        self._bound = bound
        self._momentum = momentum
        self._nodes = nodes
        self._outer = outer
        self._levels: Nodes | None = None  # the nodes, while there are two levels
        self._state: np.ndarray | None = None  # the centre, where all meet at once
        self._centre: Centre | Tree | None = None
        self._distance = 0.0
        self._staleness: Counter[int] = Counter()  # of this worker's pushes
        self._told: Counter[int] = Counter()
        self.traffic = Traffic()

    def epoch_begins(self, epoch: int) -> None:
        """Nothing: all epochs are alike."""

    def before_step(self, step: int) -> None:
        self.traffic = Traffic()
        if self._state is not None:
            return
        worker = RankWeights(self._replica)
        velocity = [np.zeros_like(worker.last)] if self._momentum else []
        self._state = np.concatenate([worker.last, *velocity])
        nodes = self._nodes
        if nodes is not None and len(nodes(self._communicator.pending.expected)) < 2:
            nodes = None
        self._levels = nodes
        if self._bound != 0:
            self._centre = self._in_turn(worker, self._state, nodes)

    def _in_turn(
        self, worker: RankWeights, state: np.ndarray, nodes: Nodes | None
    ) -> Centre | Tree:
        count = worker.last.size
        if nodes is None:
            return Centre(
                self._communicator, Pusher(worker, momentum=self._momentum), state,
                count=count, every=self._every, bound=self._bound,
            )  # fmt: skip
        return Tree(
            self._communicator,
            Pusher(worker),
            # What asynchrony adds is in the push of a node already.
            lambda centre: Pusher(NodeWeights(centre), momentum=self._momentum, staler=1),
            node=np.concatenate([worker.last, worker.last]),
            top=state,
            nodes=nodes,
            count=count,
            every=self._every,
            outer=self._outer,
            bound=self._bound,
        )

    def after_step(self, step: int) -> None:
        if self._centre is not None:
            self._centre.after_step(step)
            self.traffic = self._centre.traffic
        elif (step + 1) % (self._every * (1 if self._levels is None else self._outer)) == 0:
            self._meet()
        elif self._levels is not None and (step + 1) % self._every == 0:
            self._meet_node(self._levels, step)

    def _meet(self) -> None:
        """All push at once, and all start from the centre."""
        assert self._state is not None
        own = self._replica.read()
        weights = own[: self._replica.weights]
        size = weights.size
        middle, _ = mean(self._communicator, weights - self._state[:size])
        self._state = updated_state(
            self._state, [(middle, 1.0, 0)], size=size, momentum=self._momentum, groups=1
        )
        self._go_on(own, self._state[:size])
        self.traffic = Traffic(1, weights.nbytes)

    def _meet_node(self, nodes: Nodes, step: int) -> None:
        """The ranks of a node push at once, and start from their mean; without that after a
        repair, for all meet again."""
        if self._communicator.pending.disturbed:  # the others may wait, for who will not come
            return
        rank = self._communicator.world.rank
        node = next(n for n in nodes(self._communicator.pending.expected) if rank in n)
        own = self._replica.read()
        weights = own[: self._replica.weights]
        middle = ring_mean(self._communicator, node, weights, number=step)
        self.traffic = ring_traffic(len(node), weights)
        if middle is not None:
            self._go_on(own, middle.copy())

    def _go_on(self, own: np.ndarray, centre: np.ndarray) -> None:
        """From this centre, which has the push of this replica, *own*."""
        weights = own[: centre.size]
        self._distance = distance(weights, centre)
        weights[:] = centre
        self._replica.write(own)
        self._staleness[0] += 1

    # The one model.

    def consensus(self) -> None:
        """What nobody has pushed yet counts, and every replica becomes their mean."""
        if self._state is None:  # no step was made
            return
        if self._centre is not None:
            self._centre.settle()
            self._staleness += self._centre.staleness
            self._centre = None
        parted = meet(self._communicator, self._replica)
        self._distance = self._distance if self._bound == 0 else parted
        self._told += staleness_of_all(self._communicator, self._staleness)
        self._staleness = Counter()
        self._state = None  # a callback may change the model before the next step

    def epoch_ended(self, loss: float | None) -> None:
        """Nothing: the loss changes nothing."""

    def report(self) -> dict[str, Any]:
        """How far this replica was from the mean, relative to that, at the last consensus (from the
        centre at the last meeting, where all meet); and since the last report how many
        pushes of all ranks had which staleness."""
        told, self._told = self._told, Counter()
        return {"disagreement": self._distance, "staleness": dict(told)}
