"""Mean over the living members of a vector that each member holds as a whole, such as a model."""

from __future__ import annotations

import numpy as np

import ft
from matex.exchange import sums
from matex.strategies.interface import ReplicaLike
from matex.strategies.rules.centre import distance

__all__ = ["average_replicas", "mean"]


def mean(communicator: ft.Communicator, vector: np.ndarray) -> tuple[np.ndarray, int]:
    """Mean of the members' vectors, and their number; collective.

    Bit-identical on all members. Recovers by itself. The vector of a rank that dies meanwhile is
    included or not, equally on all members.
    """
    total = sums.over_members(communicator, np.append(vector, vector.dtype.type(1)))
    return total[:-1] / total[-1], int(total[-1])


def average_replicas(communicator: ft.Communicator, replica: ReplicaLike) -> float:
    """Set every replica to the mean of all; collective, and recovers by itself.

    Returns:
        Relative distance of this replica from the mean, before it.
    """
    own = replica.read()
    middle, _ = mean(communicator, own)
    replica.write(middle)
    return distance(own, middle)
