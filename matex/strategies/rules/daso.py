"""Schedule of DASO's averages (arXiv:2104.05588), and the merge of a late average.

Ranks of a node average gradients in every step; if ``local`` is above 1, they update by their own
gradients, and average models every ``local`` steps. Between nodes, one rank of each node in turn
averages parameters every ``skip`` steps, and merges the average ``wait`` steps later. Warm-up and
cool-down average everything in every step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

__all__ = [
    "COOL_DOWN",
    "FIRST",
    "WARM_UP",
    "Pace",
    "Plateau",
    "active",
    "blocking",
    "merge",
]

WARM_UP = COOL_DOWN = 4
_PATIENCE = 2
_THRESHOLD = 0.05


class Pace(NamedTuple):
    """Steps between averages over nodes, inside a node, and between an average and its merge."""

    skip: int
    local: int
    wait: int

    def faster(self) -> Pace:
        """Pace after a plateau: more frequent averages; after the most frequent the least."""
        if self.skip == 1:
            return _LEAST
        return Pace(max(1, self.skip // 2), max(1, self.local // 2), max(1, self.wait - 1))


FIRST = Pace(4, 1, 1)
_LEAST = Pace(8, 2, 2)


def blocking(epoch: int, epochs: int) -> bool:
    """Whether *epoch* (from 0) of *epochs* averages everything in every step.

    Warm-up and cool-down take four epochs each, fewer if four are more than a fifth of all.
    """
    most = epochs // 5
    return epoch < min(WARM_UP, most) or epoch >= epochs - min(COOL_DOWN, most)


def active(nodes: Sequence[Sequence[int]], turn: int) -> tuple[int, ...]:
    """Rank of each node that takes part in average number *turn* between nodes.

    Nodes may have different numbers of ranks, and lose some.
    """
    return tuple(node[turn % len(node)] for node in nodes if node)


def merge(own: np.ndarray, total: np.ndarray, *, waited: int, members: int) -> np.ndarray:
    """Parameters after the merge of a late average.

    Args:
        own: current parameters, *waited* steps after they were sent.
        total: sum of the parameters that the living *members* sent, this one's included.
    """
    return np.asarray((2 * waited * own + total) / (2 * waited + members))


class Plateau:
    """Follows the loss of each epoch, and selects the pace. Local.

    Every rank sees the same losses, so all have the same pace.
    """

    def __init__(self, pace: Pace = FIRST) -> None:
        self.pace = pace
        self._best = np.inf
        self._bad = 0

    def epoch_ended(self, loss: float) -> Pace:
        """Pace of the next epoch: faster if *loss* no longer falls by 5 %."""
        if loss < self._best * (1 - _THRESHOLD):
            self._best, self._bad = loss, 0
            return self.pace
        self._bad += 1
        if self._bad > _PATIENCE:
            self._bad = 0
            self.pace = self.pace.faster()
        return self.pace

    def packed(self) -> np.ndarray:
        """State for :meth:`unpacked`, of shape (5,)."""
        return np.array([self._best, self._bad, *self.pace], np.float64)

    @classmethod
    def unpacked(cls, state: np.ndarray) -> Plateau:
        """Plateau that goes on from *state*."""
        best, *numbers = state.tolist()
        bad, *pace = map(int, numbers)
        made = cls(Pace(*pace))
        made._best, made._bad = best, bad
        return made
