"""Centre strategy: a rule and a topology, up to the one model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

import ft
from matex.exchange.traffic import Traffic
from matex.strategies.centre.topology import CentreExchange, Topology
from matex.strategies.interface import ReplicaLike, Strategy
from matex.strategies.mean import mean
from matex.strategies.rules.centre import CentreRule, distance

__all__ = ["CentreStrategy"]


class CentreStrategy(Strategy):
    """Replicas that explore around a centre, with which they exchange vectors every few steps.

    A consensus ends all exchanges, and sets every replica to the one model of *rule*, and momenta
    to their mean. The next step begins from there, by the rule that :meth:`CentreRule.continued`
    returns.

    Args:
        replica: replica of this rank; equal on all ranks when training starts.
        rule: rule for workers and centre, for example
            :class:`~matex.strategies.easgd.ElasticRule`.
        topology: order in which ranks push to each other.
    """

    moves_weights_alone = True

    def __init__(
        self,
        communicator: ft.Communicator,
        replica: ReplicaLike,
        rule: CentreRule,
        topology: Topology,
    ) -> None:
        self.name = rule.name
        self._communicator = communicator
        self._replica = replica
        self._rule = rule
        self._topology = topology
        self.exchange: CentreExchange | None = None
        """This rank's part of the exchanges; None between a consensus and the next step."""
        self._distance = 0.0
        self._staleness: Counter[int] = Counter()
        self.traffic = Traffic()

    def before_step(self, step: int) -> None:
        self.traffic = Traffic()
        if self.exchange is None:
            self.exchange = self._topology.begin(self._communicator, self._rule, self._replica)

    def after_step(self, step: int) -> None:
        assert self.exchange is not None, "before_step() comes before after_step()"
        self.exchange.after_step(step)
        self.traffic = self.exchange.traffic

    def consensus(self) -> None:
        """Settle all exchanges, and set every replica to the one model, momenta to their mean."""
        exchange, self.exchange = self.exchange, None  # a callback may change the model next
        if exchange is None:  # no step was made
            return
        exchange.settle()
        own, count = self._replica.read(), self._replica.weights
        weights = self._rule.position(own, count)
        own[:count] = self._rule.final(weights, exchange.node_centre)
        middle, _ = mean(self._communicator, own)
        made = self._rule.consensus(own[:count], middle[:count], exchange.state)
        self._rule = self._rule.continued(made)
        self._distance = next(
            known
            for known in (made.distance, exchange.distance, distance(own, middle))
            if known is not None
        )
        self._replica.write(np.concatenate([made.weights, middle[count:]]))
        self._staleness += _staleness_of_all(self._communicator, exchange.staleness)

    def saved_state(self) -> dict[str, np.ndarray]:
        return self._rule.saved_state()

    def restore_state(self, state: Mapping[str, np.ndarray]) -> None:
        self._rule = self._rule.restored(state)

    def report(self) -> dict[str, Any]:
        """Relative distance of this replica from the centre or, if the rule measures none, from the
        mean, at the last consensus; and the number of pushes of all ranks by staleness since the
        last report."""
        staleness, self._staleness = self._staleness, Counter()
        return {"disagreement": self._distance, "staleness": dict(staleness)}

    def pace(self) -> float:
        ranks = self._communicator.pending.expected
        return self._rule.pace(len(ranks), self._topology.centres(ranks))


def _staleness_of_all(communicator: ft.Communicator, own: Counter[int]) -> Counter[int]:
    """Number of pushes of all living workers, by staleness; collective."""
    row = np.zeros(_LONGEST + 1, np.int64)
    for staleness, count in own.items():
        row[min(staleness, _LONGEST)] += count
    total = communicator.allgather(row).rows.sum(0)
    return Counter({n: int(total[n]) for n in np.flatnonzero(total).tolist()})


# Longer staleness is counted in the last bin.
_LONGEST = 255
