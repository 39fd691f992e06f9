"""A centre for each node, to which its ranks come, and one above, to which the nodes' centres come.

The keeper of a node's centre is a worker of the one above, on behalf of its node. Between nodes
travels what these few bring and take home, as much more seldom as *outer* says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np

import ft
from matex.strategies.centre import Centre, Worker
from matex.strategies.interface import Traffic
from matex.strategies.nodes import Nodes
from matex.strategies.rules.nodes import shares_of_node, shares_of_nodes

__all__ = ["Tree"]


class Tree:
    """One rank's part of it, in place of a :class:`Centre`. Made on all ranks before the same step.

    When somebody has died, the ranks of each node get its newest centre, all get the newest of
    the one above, or if nobody is left who knew it what the nodes have in its place, and the
    first of each node comes there from then on.

    Args:
        worker: of this rank, for the centre of its node.
        above: makes, given that centre, the worker that it is above; on all ranks.
        node, top: the centres' first states; equal on all ranks.
        count: of the elements that a worker of either brings.
        every: steps between the visits of one rank.
        outer: as many times more between those of a node's centre; 2 or more.
        bound: of the staleness at either; at least 1; None for any.
    """

    def __init__(
        self,
        communicator: ft.Communicator,
        worker: Worker,
        above: Callable[[Centre], Worker],
        *,
        node: np.ndarray,
        top: np.ndarray,
        nodes: Nodes,
        count: int,
        every: int,
        outer: int,
        bound: int | None = None,
    ) -> None:
        rank = communicator.world.rank
        self._worker = worker
        self._node = Centre(
            communicator, worker, node,
            count=count, every=every, bound=bound, common=False,
            shares=lambda ranks: shares_of_node(nodes(ranks), rank),
        )  # fmt: skip
        self._above = above(self._node)
        self._top = Centre(
            communicator, self._above, top,
            count=count, every=every * outer, bound=bound,
            shares=lambda ranks: shares_of_nodes(nodes(ranks)),
        )  # fmt: skip

    @property
    def state(self) -> np.ndarray:
        """The newest of the centre above that is known here; equal on all after :meth:`settle`."""
        return self._top.state

    @property
    def node(self) -> np.ndarray:
        """The newest centre of this rank's node that is known here."""
        return self._node.state

    @property
    def staleness(self) -> Counter[int]:
        """The staleness of this worker's visits, and of its node's centre's while it kept that."""
        return self._node.staleness + self._top.staleness

    @property
    def traffic(self) -> Traffic:
        one, other = self._node.traffic, self._top.traffic
        return Traffic(one.messages + other.messages, one.bytes + other.bytes)

    def after_step(self, step: int) -> None:
        """Visit the centres as :meth:`Centre.after_step` does."""
        changed = self._node.was_repaired()
        if self._top.was_repaired() or changed:
            self.settle()
        else:
            self._node.visit(step)
            self._top.visit(step)

    def settle(self) -> None:
        """Settle as :class:`Centre` does; what the nodes' centres have not brought stays theirs."""
        self._top.recall()  # before the node's ranks get what its keeper has
        self._node.recall()
        self._node.renew()
        self._top.renew()
        self._above.start_from(self._top.state)
        self._worker.start_from(self._node.state)
