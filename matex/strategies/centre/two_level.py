"""A centre for each node, to which its ranks push, and an upper one, to which the nodes push.

The server of a node's centre is a worker of the upper centre, for its node. Only the pushes of
these servers and their answers travel between nodes, *outer* times more seldom.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

import ft
from matex.exchange.traffic import Traffic
from matex.strategies.centre.server import ServedCentre
from matex.strategies.centre.worker import CentreWorker, NodeWeights, RankWeights
from matex.strategies.interface import ReplicaLike
from matex.strategies.nodes import Nodes
from matex.strategies.rules.centre import CentreRule
from matex.strategies.rules.nodes import shares_of_node, shares_of_nodes

__all__ = ["ServedNodes"]


class ServedNodes:
    """This rank's part of two levels, in place of a :class:`ServedCentre`.

    Constructed on all ranks before the same step. After a death the ranks of each node get its
    newest centre, and all ranks get the newest upper centre, or the mean of the nodes' estimates if
    no rank is left that knew it. From then on the first rank of each node pushes to that.

    Args:
        rule: rule of both levels; see :attr:`CentreRule.within_nodes` and
            :attr:`CentreRule.between_nodes`.
        replica: replica of this rank; equal on all ranks.
        every: number of steps between two pushes of a rank.
        outer: number of pushes of a rank between two of its node's centre; 2 or more.
        bound: largest staleness of a push on either level, at least 1; None for no bound.
    """

    distance: float | None = None

    def __init__(
        self,
        communicator: ft.Communicator,
        rule: CentreRule,
        replica: ReplicaLike,
        *,
        nodes: Nodes,
        every: int,
        outer: int,
        bound: int | None = None,
    ) -> None:
        rank = communicator.world.rank
        weights = replica.read()[: replica.weights]
        self._worker = CentreWorker(rule.within_nodes, RankWeights(replica, rule))
        self._node = ServedCentre(
            communicator, self._worker, NodeWeights.first_state(weights, rule),
            count=weights.size, every=every, bound=bound, common=False,
            shares=lambda ranks: shares_of_node(nodes(ranks), rank),
        )  # fmt: skip
        self._above = CentreWorker(rule.between_nodes, NodeWeights(self._node, rule))
        self._top = ServedCentre(
            communicator, self._above, rule.first_centre(weights),
            count=weights.size, every=every * outer, bound=bound,
            shares=lambda ranks: shares_of_nodes(nodes(ranks)),
        )  # fmt: skip

    @property
    def state(self) -> np.ndarray:
        """Newest state of the upper centre known on this rank; equal on all ranks after
        :meth:`settle`."""
        return self._top.state

    @property
    def node_centre(self) -> np.ndarray:
        """Newest state of the centre of this rank's node known on this rank."""
        return self._node.state

    @property
    def staleness(self) -> Counter[int]:
        """Staleness of this rank's pushes, its node's centre's included while it served that."""
        return self._node.staleness + self._top.staleness

    @property
    def traffic(self) -> Traffic:
        return self._node.traffic.plus(self._top.traffic)

    def after_step(self, step: int) -> None:
        """Make the exchanges with both centres as :meth:`ServedCentre.after_step` does."""
        changed = self._node.was_repaired()
        if self._top.was_repaired() or changed:
            self.settle()
        else:
            self._node.exchange(step)
            self._top.exchange(step)

    def settle(self) -> None:
        """Settle as :meth:`ServedCentre.settle`; nodes' centres keep movements not pushed yet."""
        self._top.cancel()  # before the node's ranks get its server's state
        self._node.cancel()
        self._node.renew()
        self._top.renew()
        self._above.reset(self._top.state)
        self._worker.reset(self._node.state)
