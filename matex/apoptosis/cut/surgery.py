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
    net: Network,
    group: Group,
    removal: Removal,
    transfers: Sequence[np.ndarray],
    followers: Sequence[Follower] = (),
) -> list[tuple[Any, np.ndarray]]:
    """Give the work of the removed units to the kept ones; local. No shape changes.

    A weight that is not trainable gets none: it only loses its rows of removed units. Constraints
    are applied, as behind an update. In a copy the copies of the removed units' rows are given
    away, so the copy computes without these units what it computed with them, as the weights do.

    Args:
        transfers: matrices from the criterion's ``transfers``, one for each reader.
        followers: slots that follow weights, of which copies of weights are changed here.

    Returns:
        Assigned variables, in order, and their former values.
    """
    sets: dict[int, dict[int, Any]] = {}
    for one in followers:
        if one.copies is not None:
            sets.setdefault(id(one.copies), {})[id(one.weight)] = one.slot
    before: list[tuple[Any, np.ndarray]] = []
    for reading, transfer in zip(group.readings, transfers, strict=True):
        weights = [reading.kernel.variable, reading.bias]
        if reading.bias is not None and not reading.bias.trainable:
            weights[1] = None
        own = np.asarray(weights[0].numpy())
        copies = ([held.get(id(weight)) for weight in weights] for held in sets.values())
        for twins in (weights, *copies):
            old = [None if twin is None else np.asarray(twin.numpy()) for twin in twins]
            rows = own if old[0] is None else old[0]  # a frozen kernel may have no copy
            new = _transferred(net, group, reading, removal, transfer, rows, old[1])
            for weight, twin, was, value in zip(weights, twins, old, new, strict=True):
                if was is not None:
                    before.append((twin, was))
                    twin.assign(value)
                    _constrain(twin, weight)
    return before


def _transferred(
    net: Network,
    group: Group,
    reading: Reading,
    removal: Removal,
    transfer: np.ndarray,
    kernel: np.ndarray,
    bias: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray | None]:
    """The values *kernel* and *bias* of *reading*'s weights behind the transfer. Local."""
    value = np.array(kernel, np.result_type(kernel.dtype, np.float32))
    rows = np.moveaxis(value, reading.kernel.axis, 0)  # a view
    places = occurrences(net.units.roots(reading.kernel.units), group.members)
    gives = reading.kernel.variable.trainable
    if bias is not None:
        bias = _folded(reading, transfer[-1], removal, places, rows, bias)
    for place in places:
        removed = place[removal.removed]
        has = removed >= 0
        heirs = place[removal.kept]
        lives = (heirs >= 0) & gives
        given = transfer[: len(heirs)][:, has].astype(value.dtype)
        gift = np.tensordot(given, rows[removed[has]], 1)
        rows[heirs[lives]] += gift[lives]
        rows[removed[has]] = 0.0
    return value.astype(kernel.dtype, copy=False), bias


def _constrain(variable: Any, weight: Any) -> None:
    """Apply the constraint of *weight*, where it has one, to the value of *variable*."""
    constraint = getattr(weight, "constraint", None)
    if constraint is not None and weight.trainable:
        variable.assign(constraint(variable.value))


def carry_along(
    changed: Sequence[tuple[Any, np.ndarray]], followers: Sequence[Follower]
) -> list[tuple[Any, np.ndarray]]:
    """Change slots that follow weights, such as moving averages, as the weights change; local.

    A slot that is among *changed* itself is left as it is.

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
    for slot, weight, value_of, _ in followers:
        if id(weight) in first and id(slot) not in first:
            old = np.asarray(slot.numpy())
            before.append((slot, old))
            slot.assign(value_of(old, first[id(weight)], np.asarray(weight.numpy())))
    return before


def _folded(
    reading: Reading,
    share: np.ndarray,
    removal: Removal,
    places: np.ndarray,
    rows: np.ndarray,
    old: np.ndarray,
) -> np.ndarray:
    """The bias *old* with the constant part of the removed units; *rows* are per unit."""
    constant = np.zeros(rows.shape[1:])
    for place in places:
        removed = place[removal.removed]
        has = removed >= 0
        constant += np.tensordot(share[has], rows[removed[has]], 1)
    # Axes before that of the inputs are taps of a convolution.
    constant = constant.sum(axis=tuple(range(reading.kernel.axis)))
    bias = np.array(old, np.float64)
    target = bias if bias.shape == constant.shape else bias[0]  # GRU keeps a second, recurrent one
    target += constant.reshape(target.shape)
    return bias.astype(old.dtype)
