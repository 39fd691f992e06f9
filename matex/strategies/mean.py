"""The mean over the living members of a vector that each holds whole, models first of all."""

from __future__ import annotations

import numpy as np

import ft
from matex.exchange import sums
from matex.strategies.interface import ReplicaLike
from matex.strategies.rules.centre import distance

__all__ = ["average_replicas", "mean"]


def mean(communicator: ft.Communicator, vector: np.ndarray) -> tuple[np.ndarray, int]:
    """Mean of the members' vectors, and their number; collective.

    Equal to the last bit on all members. Recovers by itself. The vector of a rank that dies on
    the way counts or does not, alike everywhere.
    """
    total = sums.over_members(communicator, np.append(vector, vector.dtype.type(1)))
    return total[:-1] / total[-1], int(total[-1])


def average_replicas(communicator: ft.Communicator, replica: ReplicaLike) -> float:
    """Let every replica be their mean; collective, and recovers by itself.

    Returns:
        The relative distance of this replica from the mean.
    """
    own = replica.read()
    middle, _ = mean(communicator, own)
    replica.write(middle)
    return distance(own, middle)
