"""The ways to share the work of a training, each chosen by one word."""

import ft
from matex.strategies.daso import Daso
from matex.strategies.easgd import Elastic
from matex.strategies.gossip import Gossip
from matex.strategies.interface import ReplicaLike, Strategy, Traffic
from matex.strategies.sync import Sync

__all__ = [
    "Daso",
    "Elastic",
    "Gossip",
    "ReplicaLike",
    "Strategy",
    "Sync",
    "Traffic",
    "make_strategy",
]


def make_strategy(
    name: str,
    communicator: ft.Communicator,
    replica: ReplicaLike,
    *,
    seed: int,
    epochs: int,
    ranks_per_node: int = 0,
) -> Strategy:
    """The strategy *name*, one of ``matex.config.STRATEGIES``, for one fit. Local.

    Replicas must be equal on all ranks before the first step.
    """
    if name == "gossip":
        return Gossip(communicator, replica, seed=seed)
    if name == "daso":
        return Daso(communicator, replica, epochs=epochs, ranks_per_node=ranks_per_node)
    if name == "easgd":
        return Elastic(communicator, replica)
    return Sync()
