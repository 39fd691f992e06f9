"""EASGD and EAMSGD: ranks explore around a centre that follows them (arXiv:1412.6651).

Synchronous: all ranks meet at once, so each can hold a copy of the centre, equal to the last
bit: there is no master, and none to lose. Asynchronous: workers meet it in turn. In two levels
(EASGD Tree, arXiv:1605.02216) each node has a centre, and these meet one above them.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

import ft
from matex.strategies.centre import Centre, staleness_of_all
from matex.strategies.interface import ReplicaLike, Traffic
from matex.strategies.mean import distance, mean
from matex.strategies.node_centre import NodeCentre
from matex.strategies.nodes import Nodes
from matex.strategies.rules.elastic import BETA, drawn, pull_together
from matex.strategies.rules.nodes import OUTER
from matex.strategies.rules.turns import EVERY
from matex.strategies.spring import Spring
from matex.strategies.tree import Tree

__all__ = ["Elastic"]


class Elastic:
    """The weights travel every *every* steps. Momenta stay with their rank.

    The one model is the centre, of two levels the upper one. At a consensus the workers start
    from it anew.

    Args:
        replica: of this rank; equal on all when training starts.
        every: steps between meetings.
        beta: the force of all workers together; each has beta / living workers.
        asynchronous: workers meet the centre in turn and do not wait; *every* must be 2 or more.
        nesterov: momentum of an optimizer whose weights are ``x + nesterov * v``, with x the
            worker of EAMSGD, and v what lies behind the weights in the replica. 0: there is none.
        nodes: of two levels; None for one. Where there is one node, there is one level, from
            the next consensus on.
        outer: meetings of a node between two that its centre has with the upper one; 2 or more.
    """

    name = "easgd"
    sums_gradients = False

    def __init__(
        self,
        communicator: ft.Communicator,
        replica: ReplicaLike,
        *,
        every: int = EVERY,
        beta: float = BETA,
        asynchronous: bool = False,
        nesterov: float = 0.0,
        nodes: Nodes | None = None,
        outer: int = OUTER,
    ) -> None:
        self._communicator = communicator
        self._replica = replica
        self._every = every
        self._beta = beta
        self._asynchronous = asynchronous
        self._nesterov = nesterov
        self._nodes = nodes
        self._outer = outer
        self._state: np.ndarray | None = None  # the centre, where all meet at once
        self._node: NodeCentre | None = None  # below it, where there are two levels
        self._centre: Centre | Tree | None = None
        self._distance = 0.0
        self._staleness: Counter[int] = Counter()  # of this worker's meetings
        self._told: Counter[int] = Counter()
        self.traffic = Traffic()

    def epoch_begins(self, epoch: int) -> None:
        """Nothing: all epochs are alike."""

    def before_step(self, step: int) -> None:
        self.traffic = Traffic()
        if self._state is not None:
            return
        self._state = self._replica.read()[: self._replica.weights]
        nodes = self._nodes
        if nodes is not None and len(nodes(self._communicator.pending.expected)) < 2:
            nodes = None
        if self._asynchronous:
            self._centre = self._in_turn(self._state, nodes)
        elif nodes is not None:
            self._node = NodeCentre(self._communicator, self._state, nodes, self._beta)

    def _in_turn(self, state: np.ndarray, nodes: Nodes | None) -> Centre | Tree:
        worker = Spring(self._where, self._pulled, self._beta)
        count, every = state.size, self._every
        if nodes is None:
            return Centre(self._communicator, worker, state, count=count, every=every)

        def above(centre: Centre) -> Spring:
            def shift(by: np.ndarray, _: float) -> None:
                centre.state = centre.state + by

            return Spring(lambda: centre.state, shift, self._beta)

        return Tree(
            self._communicator, worker, above,
            node=state, top=state, nodes=nodes, count=count, every=every, outer=self._outer,
        )  # fmt: skip

    def after_step(self, step: int) -> None:
        if self._centre is not None:
            self._centre.after_step(step)
            self.traffic = self._centre.traffic
        elif self._node is not None:
            self._node.note_members()
            if (step + 1) % self._every == 0:
                self._meet_node(self._node, step)
            if (step + 1) % (self._every * self._outer) == 0:
                self._meet_nodes(self._node)
        elif (step + 1) % self._every == 0:
            own = self._replica.read()
            worker = self._worker(own)
            middle, workers = mean(self._communicator, worker)
            self._shift(own, self._meet(worker, middle, 1 / workers) - worker)
            self._staleness[0] += 1
            self._add(Traffic(1, worker.nbytes))

    def _meet_node(self, node: NodeCentre, step: int) -> None:
        """The ranks of a node meet its centre at once."""
        own = self._replica.read()
        worker = self._worker(own)
        before = node.state
        if (pulled := node.meet(worker, number=step)) is not None:
            self._distance = distance(worker, before)
            self._shift(own, pulled - worker)
            self._staleness[0] += 1
        self._add(node.traffic)

    def _meet_nodes(self, node: NodeCentre) -> None:
        """The nodes' centres, of which each rank has a copy, meet the upper one at once."""
        assert self._state is not None
        share = node.share  # before the meeting: alike on the ranks of a node
        middle, _ = mean(self._communicator, node.state)
        node.state, self._state = pull_together(
            node.state, middle, self._state, share=share, beta=self._beta
        )
        self._staleness[0] += 1
        self._add(Traffic(1, node.state.nbytes))

    # The one model.

    def consensus(self) -> None:
        """The workers meet the centre, and then are the centre; momenta become their mean.

        Of two levels they first meet that of their node, and this the upper one.
        """
        if self._state is None:  # no step was made
            return
        below = None if self._node is None else self._node.state
        if self._centre is not None:
            self._centre.settle()
            self._state = self._centre.state
            below = self._centre.node if isinstance(self._centre, Tree) else None
            self._staleness += self._centre.staleness
        self._centre = self._node = None
        own, count = self._replica.read(), self._replica.weights
        own[:count] = self._worker(own)
        if below is not None:  # whose mean over the ranks is that of the nodes' centres
            own[:count] = drawn(own[:count], below, beta=self._beta)
        middle, workers = mean(self._communicator, own)
        self._meet(own[:count], middle[:count], 1 / workers)
        middle[:count] = self._state
        self._replica.write(middle)
        self._told += staleness_of_all(self._communicator, self._staleness)
        self._staleness = Counter()
        self._state = None  # a callback may change the model before the next step

    def _meet(self, worker: np.ndarray, middle: np.ndarray, share: float) -> np.ndarray:
        """This worker afterwards."""
        assert self._state is not None
        self._distance = distance(worker, self._state)
        pulled, self._state = pull_together(
            worker, middle, self._state, share=share, beta=self._beta
        )
        return pulled

    def _where(self) -> np.ndarray:
        return self._worker(self._replica.read())

    def _pulled(self, by: np.ndarray, apart: float) -> None:
        self._distance = apart
        self._shift(self._replica.read(), by)

    def _worker(self, own: np.ndarray) -> np.ndarray:
        """The worker that meets the centre: the weights without what momentum looks ahead."""
        count = self._replica.weights
        if not self._nesterov:
            return own[:count].copy()
        return np.asarray(own[:count] - own.dtype.type(self._nesterov) * own[count : 2 * count])

    def _shift(self, own: np.ndarray, by: np.ndarray) -> None:
        own[: by.size] += by
        self._replica.write(own)

    def _add(self, sent: Traffic) -> None:
        messages, size = self.traffic
        self.traffic = Traffic(messages + sent.messages, size + sent.bytes)

    def epoch_ended(self, loss: float | None) -> None:
        """Nothing: the loss changes nothing."""

    def report(self) -> dict[str, Any]:
        """How far this worker was from the centre, relative to that, at the last meeting; and
        since the last report how many meetings of all ranks, on both levels, had which
        staleness."""
        told, self._told = self._told, Counter()
        return {"disagreement": self._distance, "staleness": dict(told)}
