"""The mean over the living members of something that each holds whole, models first of all."""

from __future__ import annotations

import numpy as np

import ft
from matex.exchange import sums
from matex.strategies.interface import ReplicaLike

__all__ = ["distance", "mean", "meet"]


def mean(communicator: ft.Communicator, vector: np.ndarray) -> tuple[np.ndarray, int]:
    """The mean, and of how many; collective, and equal to the last bit on all members.

    Recovers by itself. One that dies on the way counts or does not, alike everywhere.
    """
    total = sums.over_members(communicator, np.append(vector, vector.dtype.type(1)))
    return total[:-1] / total[-1], int(total[-1])


def meet(communicator: ft.Communicator, replica: ReplicaLike) -> float:
    """Let every replica be their mean; collective, and recovers by itself.

    How far this one was from it, relative to that.
    """
    own = replica.read()
    middle, _ = mean(communicator, own)
    replica.write(middle)
    return distance(own, middle)


def distance(own: np.ndarray, middle: np.ndarray) -> float:
    """How far *own* is from *middle*, relative to that. Pure."""
    norm = float(np.linalg.norm(middle))
    return float(np.linalg.norm(own - middle)) / norm if norm else 0.0
