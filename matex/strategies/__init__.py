"""The ways to share the work of a training, each chosen by one word."""

import ft
from matex.config import Config
from matex.strategies.daso import Daso
from matex.strategies.downpour import Downpour
from matex.strategies.easgd import Elastic
from matex.strategies.gossip import Gossip
from matex.strategies.interface import ReplicaLike, Strategy, Traffic
from matex.strategies.nodes import nodes_by
from matex.strategies.rules.nodes import OUTER
from matex.strategies.rules.turns import EVERY
from matex.strategies.sync import Sync

__all__ = [
    "Daso",
    "Downpour",
    "Elastic",
    "Gossip",
    "ReplicaLike",
    "Strategy",
    "Sync",
    "Traffic",
    "make_strategy",
    "nodes_by",
]


def make_strategy(
    config: Config,
    communicator: ft.Communicator,
    replica: ReplicaLike,
    *,
    seed: int,
    epochs: int,
    nesterov: float = 0.0,
) -> Strategy:
    """The strategy that *config* names, for one fit. Local.

    Replicas must be equal on all ranks before the first step.

    Args:
        nesterov: see :class:`Elastic`.
    """
    every, outer = config.sync_every or EVERY, config.outer_every or OUTER
    nodes = nodes_by(communicator, config.ranks_per_node) if config.two_level else None
    if config.strategy == "gossip":
        return Gossip(communicator, replica, seed=seed)
    if config.strategy == "daso":
        return Daso(communicator, replica, epochs=epochs, ranks_per_node=config.ranks_per_node)
    if config.strategy == "easgd":
        return Elastic(
            communicator,
            replica,
            every=every,
            asynchronous=config.asynchronous,
            nesterov=nesterov,
            nodes=nodes,
            outer=outer,
        )
    if config.strategy == "downpour":
        return Downpour(
            communicator,
            replica,
            every=every,
            bound=config.staleness_bound,
            momentum=config.momentum,
            nodes=nodes,
            outer=outer,
        )
    return Sync()
