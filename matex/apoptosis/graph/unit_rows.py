"""Values of a variable by units: a row for each unit of a group. Local."""

from __future__ import annotations

from typing import Any

import numpy as np

from matex.apoptosis.graph.network import Binding, Network
from matex.apoptosis.graph.trace import Group
from matex.apoptosis.graph.units import occurrences

__all__ = ["unit_rows"]


def unit_rows(net: Network, binding: Binding, group: Group, value: Any = None) -> np.ndarray:
    """Values of a variable for each unit of *group*: shape (units, everything else)."""
    value = np.asarray(binding.variable.numpy() if value is None else value)
    front = np.moveaxis(value, binding.axis, 0).reshape(value.shape[binding.axis], -1)
    places = occurrences(net.units.roots(binding.units), group.members)
    if len(places) == 1 and np.array_equal(places[0], np.arange(len(front))):
        return front
    padded = np.vstack([front, np.zeros((1, front.shape[1]))])  # -1 is the row of zeros
    return np.moveaxis(padded[places], 0, 1).reshape(group.width, -1)
