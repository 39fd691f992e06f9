"""EASGD and EAMSGD: ranks explore around a centre that follows them (arXiv:1412.6651).

If all ranks push at once, each holds a bit-identical copy of the centre, and there is no server to
lose. Otherwise they push in turn. On two levels (EASGD Tree, arXiv:1605.02216) each node has a
centre, and the nodes' centres push to an upper one.
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
    """Elastic force between each worker and the centre, see :mod:`matex.strategies.rules.elastic`.

    The weights are exchanged; momenta stay with their rank. The one model is the centre, on two
    levels the upper centre, and after a consensus the workers start from it anew.

    Args:
        beta: force of all workers together; a worker has beta / number of living workers.
        nesterov: momentum of an optimizer whose weights are ``x + nesterov * v``, with x the worker
            of EAMSGD, and v the part of the replica after the weights; default 0, none.
    """

    name = "easgd"

    beta: float = BETA
    nesterov: float = 0.0

    def position(self, replica: np.ndarray, count: int) -> np.ndarray:
        """Weights without the part by which Nesterov momentum looks ahead."""
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
        """This rank's part of its node's centre, after a last exchange with that centre.

        Its mean over all ranks is the mean of the nodes' centres, which then meet the upper centre.
        """
        return weights if node_centre is None else drawn(weights, node_centre, beta=self.beta)

    def consensus(self, final: np.ndarray, mean: np.ndarray, centre: np.ndarray) -> Consensus:
        """The centre after a last exchange with all ranks."""
        return Consensus(drawn(mean, centre, beta=self.beta), distance(final, centre))
