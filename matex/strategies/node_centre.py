"""The centre of a node whose ranks meet it at once."""

from __future__ import annotations

import numpy as np

import ft
from matex.strategies.interface import Traffic
from matex.strategies.nodes import Nodes
from matex.strategies.ring import ring_mean, ring_traffic
from matex.strategies.rules.elastic import pull_together

__all__ = ["NodeCentre"]


class NodeCentre:
    """The centre of a node in elastic averaging; each rank of the node holds a copy.

    A meeting in which somebody dies may have been on some of them alone. So with the first one
    of other members than before the copies travel, too, and become their mean.
    """

    def __init__(
        self, communicator: ft.Communicator, state: np.ndarray, nodes: Nodes, beta: float
    ) -> None:
        self._communicator = communicator
        self.state = state
        self._nodes = nodes
        self._beta = beta
        self._members = communicator.pending.expected
        self._repairs = communicator.pending.repairs
        self._apart = False
        self.traffic = Traffic()
        """The traffic of the newest meeting."""

    def note_members(self) -> None:
        """Every rank calls it after each step. Local."""
        pending = self._communicator.pending
        before, self._repairs = self._repairs, pending.repairs
        self._members = pending.expected
        self._apart = self._apart or before != self._repairs

    @property
    def _node(self) -> list[int]:
        rank = self._communicator.world.rank
        return next(node for node in self._nodes(self._members) if rank in node)

    @property
    def share(self) -> float:
        """The part of all ranks that is on this node, from 0 to 1."""
        return len(self._node) / len(self._members)

    def meet(self, worker: np.ndarray, *, number: int) -> np.ndarray | None:
        """The *worker* of this rank after it; None after a repair. By all of a node."""
        self.traffic = Traffic()
        if self._communicator.pending.disturbed:  # the others may wait, for who will not come
            return None
        node, send = self._node, worker
        if self._apart:
            send = np.concatenate([worker, self.state])
        middle = ring_mean(self._communicator, node, send, number=number)
        self.traffic = ring_traffic(len(node), send)
        if middle is None:
            return None
        if self._apart:
            self.state, self._apart = middle[worker.size :].copy(), False
        pulled, self.state = pull_together(
            worker, middle[: worker.size], self.state, share=1 / len(node), beta=self._beta
        )
        return pulled
