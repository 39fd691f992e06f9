"""Statistics of groups from a model's weights, and giving the work of removed units to the kept.

:func:`take_over` keeps all shapes: the readers' rows of removed units become zero, so the network
already computes its outputs after :func:`matex.apoptosis.rebuild.cut`, and undoing it means
restoring values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from matex.apoptosis.group_statistics import GroupStatistics, Reader, Removal
from matex.apoptosis.network import Binding, Network, Reading
from matex.apoptosis.trace import Group
from matex.apoptosis.units import occurrences

__all__ = ["carry_along", "statistics", "take_over", "unit_rows"]


def statistics(
    net: Network, group: Group, sums: Sequence[np.ndarray] | None, *, incoming: bool
) -> GroupStatistics:
    """The measurements of *group* for the criteria; local.

    Args:
        sums: sums of :func:`matex.apoptosis.measure.views`, one for each of the group's
            readings; None for criteria that look at weights alone.
        incoming: whether the incoming vectors are wanted.
    """
    readers = []
    for place, reading in enumerate(group.readings):
        rows = unit_rows(net, reading.kernel, group)
        size = group.width + (reading.bias is not None)
        total = np.zeros((size, size)) if sums is None else sums[place]
        readers.append(Reader(total[:size, :size], rows))
    vectors = _incoming(net, group) if incoming else np.zeros((group.width, 0))
    return GroupStatistics(vectors, tuple(readers), group.scales)


def take_over(
    net: Network, group: Group, removal: Removal, transfers: Sequence[np.ndarray]
) -> list[tuple[Any, np.ndarray]]:
    """Give the work of the removed units to the kept ones; local. No shape changes.

    A weight that is not trainable gets none: it only loses its rows of removed units. Constraints
    are applied, as behind an update.

    Args:
        transfers: result of :func:`matex.apoptosis.criteria.transfers`.

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
    changed: Sequence[tuple[Any, np.ndarray]], copies: Sequence[tuple[Any, Any]]
) -> list[tuple[Any, np.ndarray]]:
    """Change copies of weights, such as moving averages, by the change of the weights; local.

    Args:
        changed: assigned variables, in order, and their former values.
        copies: each copy and its weight.

    Returns:
        Assigned copies, and their former values.
    """
    first: dict[int, np.ndarray] = {}
    for variable, value in changed:
        first.setdefault(id(variable), value)
    before = []
    for copy, weight in copies:
        if id(weight) in first:
            old = np.asarray(copy.numpy())
            before.append((copy, old))
            copy.assign(old + (np.asarray(weight.numpy()) - first[id(weight)]))
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


def unit_rows(net: Network, binding: Binding, group: Group, value: Any = None) -> np.ndarray:
    """Values of a variable for each unit of *group*: shape (units, everything else)."""
    value = np.asarray(binding.variable.numpy() if value is None else value)
    front = np.moveaxis(value, binding.axis, 0).reshape(value.shape[binding.axis], -1)
    places = occurrences(net.units.roots(binding.units), group.members)
    if len(places) == 1 and np.array_equal(places[0], np.arange(len(front))):
        return front
    padded = np.vstack([front, np.zeros((1, front.shape[1]))])  # -1 is the row of zeros
    return np.moveaxis(padded[places], 0, 1).reshape(group.width, -1)


def _incoming(net: Network, group: Group) -> np.ndarray:
    columns: list[np.ndarray] = []
    for number in group.sources:
        source = net.sources[number]
        scale, shift = _fold_norm(net, number, source.units)
        bias_seen = False
        for part in source.parts:
            value = np.asarray(part.variable.numpy(), np.float64)
            shape = [1] * value.ndim
            shape[part.axis] = value.shape[part.axis]
            times = value.shape[part.axis] // len(scale)
            is_bias = value.ndim == 1
            folded = value * np.tile(scale, times).reshape(shape)
            folded = folded + np.tile(shift, times) if is_bias else folded
            bias_seen = bias_seen or is_bias
            columns.append(unit_rows(net, part, group, folded))
        if not bias_seen and shift.any():
            binding = Binding(None, 0, source.units)
            columns.append(unit_rows(net, binding, group, shift))
    living = set(group.members.tolist())
    for extra in net.extras:
        if living & set(net.units.roots(extra.units).tolist()):
            columns.append(unit_rows(net, extra, group))
    return np.concatenate(columns, 1)


def _fold_norm(net: Network, number: int, units: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Scale and shift by the BatchNormalization right after the source."""
    norm = net.folded.get(number)
    if norm is None:
        return np.ones(len(units)), np.zeros(len(units))
    scale = 1 / np.sqrt(np.asarray(norm.moving_variance.numpy(), np.float64) + norm.epsilon)
    if norm.gamma is not None:
        scale = scale * norm.gamma.numpy()
    shift = -norm.moving_mean.numpy() * scale
    if norm.beta is not None:
        shift = shift + norm.beta.numpy()
    return scale, shift
