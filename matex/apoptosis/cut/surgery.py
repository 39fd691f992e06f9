"""Work of removed units given to the units that stay.

:func:`take_over` keeps all shapes: the readers' rows of removed units become zero, so the network
already computes its outputs after :func:`matex.apoptosis.cut.rebuild.cut`, and undoing it means
restoring values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from matex.apoptosis.graph.network import Network, Reading
from matex.apoptosis.graph.trace import Group
from matex.apoptosis.graph.units import occurrences
from matex.apoptosis.group_statistics import Removal
from matex.keras_hooks.variable_resizing import Follower

__all__ = ["carry_along", "take_over"]


def take_over(
    net: Network, group: Group, removal: Removal, transfers: Sequence[np.ndarray]
) -> list[tuple[Any, np.ndarray]]:
    """Give the work of the removed units to the kept ones; local. No shape changes.

    A weight that is not trainable gets none: it only loses its rows of removed units. Constraints
    are applied, as behind an update.

    Args:
        transfers: matrices from the criterion's ``transfers``, one for each reader.

    Returns:
        Assigned variables, in order, and their former values.
    """
    before = []
    for reading, transfer in zip(group.readings, transfers, strict=True):
        kernel = reading.kernel.variable
        old = np.asarray(kernel.numpy())
        before.append((kernel, old))
        value = np.array(old, np.result_type(old.dtype, np.float32))
        rows = np.moveaxis(value, reading.kernel.axis, 0)  # a view
        places = occurrences(net.units.roots(reading.kernel.units), group.members)
        gives = kernel.trainable
        if reading.bias is not None and reading.bias.trainable:
            before.append((reading.bias, np.asarray(reading.bias.numpy())))
            _fold(reading, transfer[-1], removal, places, rows)
        for place in places:
            removed = place[removal.removed]
            has = removed >= 0
            heirs = place[removal.kept]
            lives = (heirs >= 0) & gives
            given = transfer[: len(heirs)][:, has].astype(value.dtype)
            gift = np.tensordot(given, rows[removed[has]], 1)
            rows[heirs[lives]] += gift[lives]
            rows[removed[has]] = 0.0
        kernel.assign(value.astype(old.dtype, copy=False))
        for variable in (kernel, reading.bias):
            _constrain(variable)
    return before


def _constrain(variable: Any | None) -> None:
    """Apply the constraint of *variable*, where it has one, to its value."""
    constraint = getattr(variable, "constraint", None)
    if variable is not None and constraint is not None and variable.trainable:
        variable.assign(constraint(variable.value))


def carry_along(
    changed: Sequence[tuple[Any, np.ndarray]], followers: Sequence[Follower]
) -> list[tuple[Any, np.ndarray]]:
    """Change slots that follow weights, such as moving averages, as the weights change; local.

    Args:
        changed: assigned variables, in order, and their former values.
        followers: slots of the model's optimizers that follow its weights.

    Returns:
        Assigned slots, and their former values.
    """
    first: dict[int, np.ndarray] = {}
    for variable, value in changed:
        first.setdefault(id(variable), value)
    before = []
    for slot, weight, value_of in followers:
        if id(weight) in first:
            old = np.asarray(slot.numpy())
            before.append((slot, old))
            slot.assign(value_of(old, first[id(weight)], np.asarray(weight.numpy())))
    return before


def _fold(
    reading: Reading, share: np.ndarray, removal: Removal, places: np.ndarray, rows: np.ndarray
) -> None:
    """Add the constant part of the removed units to the reader's bias; *rows* are per unit."""
    constant = np.zeros(rows.shape[1:])
    for place in places:
        removed = place[removal.removed]
        has = removed >= 0
        constant += np.tensordot(share[has], rows[removed[has]], 1)
    # Axes before that of the inputs are taps of a convolution.
    constant = constant.sum(axis=tuple(range(reading.kernel.axis)))
    variable: Any = reading.bias
    old = np.asarray(variable.numpy())
    bias = np.array(old, np.float64)
    target = bias if bias.shape == constant.shape else bias[0]  # GRU keeps a second, recurrent one
    target += constant.reshape(target.shape)
    variable.assign(bias.astype(old.dtype))
