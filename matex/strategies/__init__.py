"""Strategies to share the work of a training, each selected by its name.

:data:`~matex.strategies.table.STRATEGIES` has a row for each. A strategy is a :class:`Strategy`,
which defines the communication around a step; a strategy with a centre is a
:class:`CentreStrategy`, made of a rule (pure) and a topology.
"""

from matex.strategies.centre import AllAtOnce, CentreStrategy, InTurn
from matex.strategies.daso import Daso
from matex.strategies.downpour import DownpourRule
from matex.strategies.easgd import ElasticRule
from matex.strategies.gossip import Gossip
from matex.strategies.interface import ReplicaLike, Strategy
from matex.strategies.nodes import nodes_by
from matex.strategies.rules.centre import CentreRule
from matex.strategies.sync import Sync
from matex.strategies.table import STRATEGIES, StrategyContext, make_strategy

__all__ = [
    "STRATEGIES",
    "AllAtOnce",
    "CentreRule",
    "CentreStrategy",
    "Daso",
    "DownpourRule",
    "ElasticRule",
    "Gossip",
    "InTurn",
    "ReplicaLike",
    "Strategy",
    "StrategyContext",
    "Sync",
    "make_strategy",
    "nodes_by",
]
