"""EASGD and EAMSGD: ranks explore around a centre that follows them (arXiv:1412.6651).

Where all ranks push at once, each holds a copy of the centre, equal to the last bit: there is no
server, and none to lose. Otherwise they push in turn. In two levels (EASGD Tree,
arXiv:1605.02216) each node has a centre, and these push to one above them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from matex.strategies.rules.centre import CentreRule, Consensus, Push, Sent, WorkerMemory, distance
from matex.strategies.rules.elastic import BETA, drawn, force, pace, pull, pull_together, pulled_by

__all__ = ["ElasticRule"]


@dataclass(frozen=True, kw_only=True)
class ElasticRule(CentreRule):
    """A spring between each worker and the centre, see :mod:`matex.strategies.rules.elastic`.

    The weights travel; momenta stay with their rank. The one model is the centre, of two levels
    the upper one, and after a consensus the workers start from it anew.

    Args:
        beta: force of all workers together; each has beta / living workers.
        nesterov: momentum of an optimizer whose weights are ``x + nesterov * v``, with x the
            worker of EAMSGD, and v what follows the weights in the replica; default 0, none.
    """

    name = "easgd"

    beta: float = BETA
    nesterov: float = 0.0

    def position(self, replica: np.ndarray, count: int) -> np.ndarray:
        """The weights without the part by which momentum looks ahead."""
        if not self.nesterov:
            return replica[:count].copy()
        ahead = replica.dtype.type(self.nesterov) * replica[count : 2 * count]
        return np.asarray(replica[:count] - ahead)

    def placed(self, replica: np.ndarray, before: np.ndarray, after: np.ndarray) -> np.ndarray:
        moved = replica.copy()
        moved[: after.size] += after - before
        return moved

    def pace(self, workers: int, centres: int) -> float:
        return pace(workers, centres)

    def push(
        self, weights: np.ndarray, share: float, memory: WorkerMemory
    ) -> tuple[np.ndarray, WorkerMemory]:
        return weights, memory._replace(sent=(*memory.sent, Sent(weights, share)))

    def serve(self, centre: np.ndarray, pushes: Sequence[Push], groups: int) -> list[np.ndarray]:
        answers = []
        for push in pushes:
            centre = pull(push.vector, centre, force(push.share, self.beta))[1]
            answers.append(centre)
        return answers

    def apply(self, answer: np.ndarray, memory: WorkerMemory) -> tuple[np.ndarray, WorkerMemory]:
        oldest, *rest = memory.sent
        shift = pulled_by(oldest.weights, answer, force(oldest.share, self.beta))
        return shift, memory._replace(sent=tuple(rest))

    def meet(
        self, weights: np.ndarray, mean: np.ndarray, centre: np.ndarray, *, share: float
    ) -> tuple[np.ndarray, np.ndarray]:
        return pull_together(weights, mean, centre, share=share, beta=self.beta)

    def final(self, weights: np.ndarray, node_centre: np.ndarray | None) -> np.ndarray:
        """A rank's part of its node's centre after a last meeting with that.

        The mean over all ranks is that of the nodes' centres, which then meet the upper one.
        """
        return weights if node_centre is None else drawn(weights, node_centre, beta=self.beta)

    def consensus(self, final: np.ndarray, mean: np.ndarray, centre: np.ndarray) -> Consensus:
        """The centre after a last meeting with all."""
        return Consensus(drawn(mean, centre, beta=self.beta), distance(final, centre))
