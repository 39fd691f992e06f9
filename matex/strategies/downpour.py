"""Downpour SGD: workers push their movement, and go on from the centre that they receive.

The weight of a push, and the centre's momentum: :mod:`matex.strategies.rules.downpour`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from matex.strategies.rules.centre import (
    CentreOptimizer,
    CentreRule,
    Consensus,
    Push,
    Sent,
    WorkerMemory,
)
from matex.strategies.rules.downpour import optimized_state, updated_state

__all__ = ["DownpourRule"]


@dataclass(frozen=True, kw_only=True)
class DownpourRule(CentreRule):
    """A push is the change of a worker's weights since its last push; the answer is the centre.

    The optimizer's state stays with its worker until a consensus, where it becomes the mean, as the
    weights do; the centre's momentum then starts from zero. The state of a centre is its weights
    and their companions: the velocity of its momentum, the slots of its optimizer or, for a node's
    centre, the weights at its last push. So any rank that knows the centre may serve it. The slots
    are kept over a consensus.

    Args:
        momentum: total momentum of the centre, on two levels of the upper centre; it includes the
            momentum that asynchrony adds by itself; default 0.
        extra_staleness: number of updates added to the measured staleness of each push. With 1,
            workers that push one at a time contribute their mean; with the default 0, M of them
            move the centre M / (M - 1) times as far.
        optimizer: optimizer of the centre, on two levels of the upper centre, in place of adding
            pushes and of momentum; default None.
        slots: slots of *optimizer* when exchanges begin; default None, the slots before its first
            update.
    """

    name = "downpour"
    tracks_weights = True
    keeps_node_centres = False

    momentum: float = 0.0
    extra_staleness: int = 0
    optimizer: CentreOptimizer | None = None
    slots: np.ndarray | None = None

    @property
    def within_nodes(self) -> DownpourRule:
        return replace(self, momentum=0.0, optimizer=None, slots=None)

    @property
    def between_nodes(self) -> DownpourRule:
        # The push of a node already includes the momentum of asynchrony.
        return replace(self, extra_staleness=1)

    def first_centre(self, weights: np.ndarray) -> np.ndarray:
        return np.concatenate([weights, *self._first_rest(weights)])

    def push(
        self, weights: np.ndarray, share: float, memory: WorkerMemory
    ) -> tuple[np.ndarray, WorkerMemory]:
        moved = np.asarray(weights - memory.tracked)
        return moved, WorkerMemory(weights, (*memory.sent, Sent(weights, share)))

    def serve(self, centre: np.ndarray, pushes: Sequence[Push], groups: int) -> list[np.ndarray]:
        if not pushes:
            return []
        weighed = [
            Push(push.vector, groups * push.share, push.staleness + self.extra_staleness)
            for push in pushes
        ]
        return [self._updated(centre, weighed, groups)] * len(pushes)

    def apply(self, answer: np.ndarray, memory: WorkerMemory) -> tuple[np.ndarray, WorkerMemory]:
        """Move the weights by the change of the centre since the push; the memory moves along."""
        oldest, *rest = memory.sent
        shift = answer[: oldest.weights.size] - oldest.weights
        sent = tuple(push._replace(weights=push.weights + shift) for push in rest)
        return shift, WorkerMemory(memory.tracked + shift, sent)

    def cancel(self, unserved: np.ndarray | None, memory: WorkerMemory) -> WorkerMemory:
        tracked = memory.tracked if unserved is None else memory.tracked - unserved
        return WorkerMemory(tracked)

    def reset(
        self, centre: np.ndarray, memory: WorkerMemory
    ) -> tuple[np.ndarray | None, WorkerMemory]:
        """Restart from *centre*, without the movement that the worker has not pushed."""
        weights = centre[: memory.tracked.size].copy()
        return weights - memory.tracked, WorkerMemory(weights)

    def fallback(self, weights: np.ndarray, memory: WorkerMemory) -> np.ndarray:
        """Centre as this worker knows it; its momentum starts from zero, its optimizer from the
        last consensus."""
        return self.first_centre(memory.tracked)

    def contribution(self, weights: np.ndarray, centre: np.ndarray) -> np.ndarray:
        return np.asarray(weights - centre[: weights.size])

    def meet(
        self, weights: np.ndarray, mean: np.ndarray, centre: np.ndarray, *, share: float
    ) -> tuple[np.ndarray, np.ndarray]:
        centre = self._updated(centre, [Push(mean, 1.0, 0)], groups=1)
        return centre[: weights.size], centre

    def consensus(self, final: np.ndarray, mean: np.ndarray, centre: np.ndarray) -> Consensus:
        """The mean; with a centre optimizer the centre, updated by the movements not pushed yet."""
        if self.optimizer is None:
            return Consensus(mean)
        unpushed = self.contribution(mean, centre)
        made = self._updated(centre, [Push(unpushed, 1.0, 0)], groups=1)
        return Consensus(made[: mean.size], slots=made[mean.size :])

    def continued(self, made: Consensus) -> DownpourRule:
        return replace(self, slots=made.slots)

    def saved_state(self) -> dict[str, np.ndarray]:
        return {} if self.slots is None else {self._name_of_slots: self.slots}

    def restored(self, state: Mapping[str, np.ndarray]) -> DownpourRule:
        slots = None if self.optimizer is None else state.get(self._name_of_slots)
        return self if slots is None else replace(self, slots=slots)

    @property
    def _name_of_slots(self) -> str:
        assert self.optimizer is not None, "no other rule has slots"
        return f"slots of {self.optimizer.kind}"

    def _first_rest(self, weights: np.ndarray) -> list[np.ndarray]:
        if self.optimizer is None:
            return [np.zeros_like(weights)] if self.momentum else []
        return [self.optimizer.first_slots(weights) if self.slots is None else self.slots]

    def _updated(self, centre: np.ndarray, pushes: Sequence[Push], groups: int) -> np.ndarray:
        size = pushes[0].vector.size
        if self.optimizer is not None:
            return optimized_state(centre, pushes, size=size, optimizer=self.optimizer)
        return updated_state(centre, pushes, size=size, momentum=self.momentum, groups=groups)
