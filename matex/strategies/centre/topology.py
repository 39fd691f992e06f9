"""Topologies of centre strategies: which rank pushes to which, and when."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

import ft
from matex.exchange.traffic import Traffic
from matex.strategies.centre.at_once import CopiedCentre, CopiedNodes
from matex.strategies.centre.server import ServedCentre
from matex.strategies.centre.two_level import ServedNodes
from matex.strategies.centre.worker import CentreWorker, RankWeights
from matex.strategies.interface import ReplicaLike
from matex.strategies.nodes import Nodes
from matex.strategies.rules.centre import CentreRule
from matex.strategies.rules.nodes import OUTER
from matex.strategies.rules.turns import EVERY

__all__ = ["AllAtOnce", "CentreExchange", "InTurn", "Topology"]


class CentreExchange(Protocol):
    """This rank's part of the exchanges with a centre, from one consensus to the next."""

    @property
    def state(self) -> np.ndarray:
        """Newest state of the centre, on two levels of the upper centre, known on this rank."""

    @property
    def node_centre(self) -> np.ndarray | None:
        """Newest known state of the centre of this rank's node; None if there is none."""

    @property
    def staleness(self) -> Counter[int]:
        """Number of this rank's pushes by staleness."""

    @property
    def traffic(self) -> Traffic:
        """Traffic of the newest :meth:`after_step`."""

    @property
    def distance(self) -> float | None:
        """Relative distance of the newest exchange's move of this worker; None if none was made."""

    def after_step(self, step: int) -> None:
        """Make the exchanges due after *step*; every member calls it. Recovers by itself."""

    def settle(self) -> None:
        """Give all ranks the newest centre, ending all messages; collective, recovers by itself."""


class Topology(Protocol):
    """Options of one topology."""

    def centres(self, ranks: Sequence[int]) -> int:
        """Number of centres around which *ranks*, living ones, explore. Local."""

    def begin(
        self, communicator: ft.Communicator, rule: CentreRule, replica: ReplicaLike
    ) -> CentreExchange:
        """Begin on all ranks before the same step, with replicas that are equal. Local."""


@dataclass(frozen=True, kw_only=True)
class _Levels:
    """Options common to all topologies."""

    every: int = EVERY
    nodes: Nodes | None = None
    outer: int = OUTER

    def two_level_nodes(self, ranks: Sequence[int]) -> Nodes | None:
        """Function that returns nodes if *ranks* are on several; None for one level. Local."""
        return None if self.nodes is None or len(self.nodes(ranks)) < 2 else self.nodes

    def centres(self, ranks: Sequence[int]) -> int:
        nodes = self.two_level_nodes(ranks)
        return 1 if nodes is None else 1 + len(nodes(ranks))


@dataclass(frozen=True, kw_only=True)
class AllAtOnce(_Levels):
    """Topology in which all ranks push in one collective, so that each has a copy of the centre.

    Args:
        every: number of steps between two pushes; default 4.
        nodes: nodes of two levels; default None, one level. With a single node there is one level,
            from the next consensus on.
        outer: number of exchanges within a node between two of all nodes, 2 or more; default 4.
    """

    def begin(
        self, communicator: ft.Communicator, rule: CentreRule, replica: ReplicaLike
    ) -> CentreExchange:
        nodes = self.two_level_nodes(communicator.pending.expected)
        if nodes is None:
            return CopiedCentre(communicator, rule, replica, every=self.every)
        return CopiedNodes(
            communicator, rule, replica, nodes=nodes, every=self.every, outer=self.outer
        )


@dataclass(frozen=True, kw_only=True)
class InTurn(_Levels):
    """Topology in which ranks push in turn to a server, without waiting for one another.

    Args:
        every: number of steps between two pushes of a rank; default 4.
        bound: largest staleness of a push, in updates of the centre, at least 1; default None, no
            bound.
        nodes: nodes of two levels; default None, one level. With a single node there is one level,
            from the next consensus on.
        outer: number of pushes of a rank between two of its node's centre, 2 or more; default 4.
    """

    bound: int | None = None

    def begin(
        self, communicator: ft.Communicator, rule: CentreRule, replica: ReplicaLike
    ) -> CentreExchange:
        nodes = self.two_level_nodes(communicator.pending.expected)
        if nodes is not None:
            return ServedNodes(
                communicator, rule, replica,
                nodes=nodes, every=self.every, outer=self.outer, bound=self.bound,
            )  # fmt: skip
        weights = replica.read()[: replica.weights]
        return ServedCentre(
            communicator,
            CentreWorker(rule, RankWeights(replica, rule)),
            rule.first_centre(weights),
            count=weights.size,
            every=self.every,
            bound=self.bound,
        )
