"""Table of the strategies: how each is made from the options of a run.

A new strategy is one file, which defines a :class:`Strategy` or a :class:`CentreRule`, one row of
:data:`STRATEGIES`, and its name in ``matex.config.options.STRATEGIES``. An option of its own is a
row of ``matex.config.options.RankOptions`` and a property of :class:`StrategyOptions`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import ft
from matex.strategies.centre import AllAtOnce, CentreStrategy, InTurn
from matex.strategies.daso import Daso
from matex.strategies.downpour import DownpourRule
from matex.strategies.easgd import ElasticRule
from matex.strategies.gossip import Gossip
from matex.strategies.interface import ReplicaLike, Strategy
from matex.strategies.nodes import nodes_by
from matex.strategies.rules.centre import CentreOptimizer, CentreRule
from matex.strategies.rules.elastic import BETA
from matex.strategies.rules.nodes import OUTER
from matex.strategies.rules.turns import EVERY
from matex.strategies.sync import Sync

__all__ = ["STRATEGIES", "StrategyContext", "StrategyOptions", "make_strategy"]


class StrategyOptions(Protocol):
    """Options of :class:`matex.config.Config` that strategies take, under the same names."""

    @property
    def strategy(self) -> str: ...
    @property
    def ranks_per_node(self) -> int: ...
    @property
    def sync_every(self) -> int | None: ...
    @property
    def two_level(self) -> bool: ...
    @property
    def outer_every(self) -> int | None: ...
    @property
    def asynchronous(self) -> bool: ...
    @property
    def elastic_force(self) -> float | None: ...
    @property
    def staleness_bound(self) -> int | None: ...
    @property
    def momentum(self) -> float: ...
    @property
    def compression(self) -> str: ...


@dataclass(frozen=True, kw_only=True)
class StrategyContext:
    """Arguments of which a strategy is made, for one fit.

    Args:
        replica: replica of this rank; equal on all ranks before the first step.
        options: options of the run, equal on all ranks.
        seed: seed of random choices, equal on all ranks.
        epochs: number of epochs of the fit.
        nesterov: momentum of a Nesterov optimizer, see :class:`ElasticRule`; 0 for another
            optimizer.
        centre_optimizer: optimizer that the options name for the centre; None if they name none.
    """

    communicator: ft.Communicator
    replica: ReplicaLike
    options: StrategyOptions
    seed: int
    epochs: int
    nesterov: float = 0.0
    centre_optimizer: CentreOptimizer | None = None

    def centre(self, rule: CentreRule, *, at_once: bool) -> CentreStrategy:
        """Centre strategy with *rule*, whose workers push as the options say.

        Args:
            at_once: whether all ranks push in one collective; otherwise they push in turn.
        """
        options = self.options
        every, outer = options.sync_every or EVERY, options.outer_every or OUTER
        nodes = nodes_by(self.communicator, options.ranks_per_node) if options.two_level else None
        topology = (
            AllAtOnce(every=every, nodes=nodes, outer=outer)
            if at_once
            else InTurn(every=every, bound=options.staleness_bound, nodes=nodes, outer=outer)
        )
        return CentreStrategy(self.communicator, self.replica, rule, topology)


#: Strategies by their names on the command line.
STRATEGIES: dict[str, Callable[[StrategyContext], Strategy]] = {
    "sync": lambda context: Sync(),
    "gossip": lambda context: Gossip(
        context.communicator,
        context.replica,
        seed=context.seed,
        compression=context.options.compression,
    ),
    "daso": lambda context: Daso(
        context.communicator,
        context.replica,
        epochs=context.epochs,
        ranks_per_node=context.options.ranks_per_node,
    ),
    "easgd": lambda context: context.centre(
        ElasticRule(beta=context.options.elastic_force or BETA, nesterov=context.nesterov),
        at_once=not context.options.asynchronous,
    ),
    "downpour": lambda context: context.centre(
        DownpourRule(momentum=context.options.momentum, optimizer=context.centre_optimizer),
        at_once=context.options.staleness_bound == 0,
    ),
}


def make_strategy(context: StrategyContext, name: str | None = None) -> Strategy:
    """Strategy for one fit. Local.

    Args:
        context: arguments of which it is made.
        name: row of :data:`STRATEGIES`; by default the one that the options of *context* name.
    """
    return STRATEGIES[name or context.options.strategy](context)
