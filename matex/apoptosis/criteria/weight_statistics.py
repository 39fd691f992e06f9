"""Statistics of groups, from a model's weights and measured sums. Local."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from matex.apoptosis.graph.network import Binding, Network
from matex.apoptosis.graph.trace import Group
from matex.apoptosis.graph.unit_rows import unit_rows
from matex.apoptosis.group_statistics import GroupStatistics, Reader

__all__ = ["statistics"]


def statistics(
    net: Network, group: Group, sums: Sequence[np.ndarray] | None, *, incoming: bool
) -> GroupStatistics:
    """The measurements of *group* for the criteria; local.

    Args:
        sums: sums of :func:`matex.apoptosis.criteria.measure.views`, one for each of the group's
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
