"""Workers that push all at once, on one level or two; each rank has a copy of the centre."""

from __future__ import annotations

from collections import Counter

import numpy as np

import ft
from matex.exchange.traffic import Traffic
from matex.strategies.interface import ReplicaLike
from matex.strategies.mean import mean
from matex.strategies.nodes import Nodes
from matex.strategies.ring import ring_mean, ring_traffic
from matex.strategies.rules.centre import CentreRule, distance

__all__ = ["CopiedCentre", "CopiedNodes"]


class CopiedCentre:
    """This rank's copy of the centre. Constructed on all ranks before the same step.

    Args:
        replica: replica of this rank; equal on all ranks.
        every: steps between two pushes.
    """

    def __init__(
        self, communicator: ft.Communicator, rule: CentreRule, replica: ReplicaLike, *, every: int
    ) -> None:
        self._communicator = communicator
        self._rule = rule
        self._replica = replica
        self._every = every
        self.state = rule.first_centre(replica.read()[: replica.weights])
        self.node_centre: np.ndarray | None = None
        self.distance: float | None = None
        self.staleness: Counter[int] = Counter()
        self.traffic = Traffic()

    def after_step(self, step: int) -> None:
        """Push if a push is due; then collective, and recovers by itself."""
        self.traffic = Traffic()
        if (step + 1) % self._every == 0:
            self._meet_all()

    def settle(self) -> None:
        """Do nothing: between two steps no message is under way, and all copies are equal."""

    def _meet_all(self) -> None:
        own = self._replica.read()
        weights = self._rule.position(own, self._replica.weights)
        pushed = self._rule.contribution(weights, self.state)
        middle, workers = mean(self._communicator, pushed)
        after, self.state = self._rule.meet(weights, middle, self.state, share=1 / workers)
        self._move(own, weights, after)
        self.traffic = self.traffic.plus(Traffic(1, pushed.nbytes))

    def _move(self, own: np.ndarray, weights: np.ndarray, after: np.ndarray) -> None:
        """Move this rank's worker, in the replica *own*, from *weights* to *after*."""
        self.distance = distance(weights, after)
        self._replica.write(self._rule.placed(own, weights, after))
        self.staleness[0] += 1


class CopiedNodes(CopiedCentre):
    """This rank's copies of its node's centre and of the upper centre.

    With a rule that keeps no node centres, the ranks of a node are set to their mean instead, and
    all ranks push to the upper centre. An exchange within a node in which a rank dies may have
    succeeded on some ranks only; so the next exchange also sends the copies of the node's centre,
    which are set to their mean.

    Args:
        every: steps between two exchanges within a node.
        outer: number of exchanges within a node between two of all nodes; 2 or more.
    """

    def __init__(
        self,
        communicator: ft.Communicator,
        rule: CentreRule,
        replica: ReplicaLike,
        *,
        nodes: Nodes,
        every: int,
        outer: int,
    ) -> None:
        super().__init__(communicator, rule, replica, every=every)
        self._nodes = nodes
        self._outer = outer
        self._repairs = communicator.pending.repairs
        self._copies_differ = False
        if rule.keeps_node_centres:
            self.node_centre = replica.read()[: replica.weights]

    def after_step(self, step: int) -> None:
        """Make the exchanges that are due, within nodes and among all; recovers by itself."""
        self.traffic = Traffic()
        before, self._repairs = self._repairs, self._communicator.pending.repairs
        self._copies_differ = self._copies_differ or before != self._repairs
        among_all = (step + 1) % (self._every * self._outer) == 0
        within_nodes = (step + 1) % self._every == 0
        if self.node_centre is None:
            if among_all:
                self._meet_all()
            elif within_nodes:
                self._average_node(step)
            return
        if within_nodes:
            self.node_centre = self._meet_node(self.node_centre, step)
        if among_all:
            self.node_centre = self._meet_nodes(self.node_centre)

    @property
    def _node(self) -> list[int]:
        rank = self._communicator.world.rank
        expected = self._communicator.pending.expected
        return next(node for node in self._nodes(expected) if rank in node)

    def _node_mean(self, vector: np.ndarray, step: int) -> np.ndarray | None:
        """Mean of *vector* over the ranks of this node; None after a repair."""
        if self._communicator.pending.p2p_unsafe:  # other ranks may wait for a dead one
            return None
        node = self._node
        middle = ring_mean(self._communicator, node, vector, number=step)
        self.traffic = self.traffic.plus(ring_traffic(len(node), vector))
        return middle

    def _average_node(self, step: int) -> None:
        """Set the replicas of a node to their mean."""
        own = self._replica.read()
        weights = self._rule.position(own, self._replica.weights)
        middle = self._node_mean(weights, step)
        if middle is not None:
            self._move(own, weights, middle.copy())

    def _meet_node(self, centre: np.ndarray, step: int) -> np.ndarray:
        """Exchange this rank's worker with its node's *centre*; return the new centre."""
        own = self._replica.read()
        weights = self._rule.position(own, self._replica.weights)
        pushed = self._rule.contribution(weights, centre)
        count = pushed.size
        sent = np.concatenate([pushed, centre]) if self._copies_differ else pushed
        middle = self._node_mean(sent, step)
        if middle is None:
            return centre
        if self._copies_differ:
            centre, self._copies_differ = middle[count:].copy(), False
        share = 1 / len(self._node)
        after, centre = self._rule.meet(weights, middle[:count], centre, share=share)
        self._move(own, weights, after)
        return centre

    def _meet_nodes(self, centre: np.ndarray) -> np.ndarray:
        """Exchange the node's *centre* with the upper centre; return the node's new centre."""
        # Before the exchange, because the members are then equal on the ranks of a node.
        share = len(self._node) / len(self._communicator.pending.expected)
        pushed = self._rule.contribution(centre, self.state)
        middle, _ = mean(self._communicator, pushed)
        after, self.state = self._rule.meet(centre, middle, self.state, share=share)
        self.staleness[0] += 1
        self.traffic = self.traffic.plus(Traffic(1, pushed.nbytes))
        return after
