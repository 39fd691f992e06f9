"""Derivatives of the loss by the units of groups, over a sample.

A unit is removed when its readers' rows of weights for it become zero, or, which is the same, a
gate of 1 that multiplies it where they read it becomes 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from matex import keras_hooks
from matex.apoptosis.criteria.criterion import Criterion, Derivatives
from matex.apoptosis.graph.forward import FAILURES, Forward, mean_loss
from matex.apoptosis.graph.gates import Site, by_rows, gated, of_units, site_of
from matex.apoptosis.graph.network import Network
from matex.apoptosis.graph.trace import Group
from matex.apoptosis.graph.unit_rows import unit_rows
from matex.apoptosis.samples import Sample
from matex.errors import InputError, Unsupported
from matex.keras_hooks.error_text import reason_of

__all__ = ["Losses", "add", "expansion", "must_have_derivatives", "numbers", "squares", "views"]

# Outputs of a model, at most, whose losses are divided by masks or by weights.
_MOST_LOSSES = 256


class Losses:
    """The loss of *model* on all *samples*, as a sum over parts of them; local.

    Masked losses, and those that are divided by sums of weights, are divided by the numbers of
    all samples: so how these are cut into batches, or shared among ranks, does not matter.

    Attributes:
        denominators: these numbers, in the order of the losses; to be filled by the caller.
    """

    def __init__(self, model: Any, samples: int, row: tuple[Any, ...]) -> None:
        self.model = model
        self._samples = samples
        self.denominators = np.ones(len(self._local(row)))

    def _local(self, batch: tuple[Any, ...]) -> list[Any]:
        with keras_hooks.shared_losses(1.0, tf.ones(_MOST_LOSSES, tf.float64)) as local:
            mean_loss(self.model, batch, self.model(batch[0], training=False))
        return local

    def add_denominators(self, batches: Iterable[tuple[Any, ...]], total: np.ndarray) -> None:
        """Add the numbers of *batches* to *total*, shaped as ``denominators``."""
        for batch in batches:
            total += np.array([float(one) for one in self._local(batch)])

    def __call__(self, batch: tuple[Any, ...]) -> Any:
        """The sum of the losses of the rows of *batch*: its part of the mean, times the samples."""
        count = rows_of(batch)
        divisors = tf.constant(self.denominators, tf.float64)
        share = tf.constant(count / self._samples, tf.float64)
        with keras_hooks.shared_losses(share, divisors):
            loss = mean_loss(self.model, batch, self.model(batch[0], training=False))
        return loss * tf.cast(count, loss.dtype)


def rows_of(batch: tuple[Any, ...]) -> int:
    """Number of rows of *batch*."""
    return len(keras_hooks.flatten(batch[0])[0])


def numbers(wanted: Derivatives, groups: Sequence[Group]) -> int:
    """Number of elements in all sums of *groups*."""
    return sum(wanted.parts * group.width for group in groups)


def views(wanted: Derivatives, groups: Sequence[Group], vector: np.ndarray) -> list[np.ndarray]:
    """The sums of each of *groups* in *vector*, shape (parts, units), without a copy."""
    ends = np.cumsum([wanted.parts * group.width for group in groups])
    parts = np.split(vector, ends[:-1])
    return [
        part.reshape(wanted.parts, group.width) for part, group in zip(parts, groups, strict=True)
    ]


def add(
    wanted: Derivatives,
    losses: Losses,
    net: Network,
    groups: Sequence[Group],
    batches: Iterable[tuple[Any, ...]],
    sums: Sequence[np.ndarray],
) -> list[bool]:
    """Add the *wanted* derivatives over *batches* to *sums*, by group; local.

    They add up over batches and over ranks.

    Returns:
        Whether the loss of any batch depends on each group by a function with a derivative.
    """
    known = [False] * len(groups)
    for batch in batches:
        for number, one in enumerate(wanted.of_batch(losses, net, groups, batch)):
            if one is not None:
                known[number] = True
                sums[number][:] += one
    return known


def must_have_derivatives(
    criterion: Criterion, model: Any, net: Network, groups: Sequence[Group], sample: Sample
) -> None:
    """Raise where *criterion* cannot have what it needs of the loss on rows of *sample*; local.

    Raises:
        InputError: there is no loss.
        Unsupported: the loss has no such derivatives.
    """
    wanted = criterion.derivatives
    assert wanted is not None, "only such criteria are asked"
    (row,) = sample.batches([(0, 1)])
    wants = f"criterion {criterion.name!r} wants the loss on rows that are looked at"
    if not Forward(model).has_loss(row):
        has_y = len(row) > 1 and row[1] is not None
        had = "rows without y" if model.compiled and not has_y else "a model without such a loss"
        raise InputError(
            f"{wants}. Received: {had}; compile the model with a loss and give y, or take the "
            "criterion 'gram', which needs neither"
        )
    vector = np.zeros(numbers(wanted, groups))
    try:
        losses = Losses(model, 1, row)
        losses.add_denominators([row], total := np.zeros(len(losses.denominators)))
        losses.denominators = np.maximum(total, 1e-300)
        known = add(wanted, losses, net, groups, [row], views(wanted, groups, vector))
    except FAILURES as error:
        raise Unsupported(
            f"{wants}, and its {wanted.orders}. Received: {type(model).__name__} {model.name!r}, "
            f"which has none ({reason_of(error)}); take the criterion 'gram', which needs none"
        ) from error
    if unknown := [group.name for group, has in zip(groups, known, strict=True) if not has]:
        raise Unsupported(
            f"{wants}, and its {wanted.orders} by every unit. Received: none by the units of "
            f"{', '.join(unknown)}, on which it does not depend by functions that have them; "
            "exclude these layers, or take the criterion 'gram'"
        )


def squares(
    losses: Losses, net: Network, groups: Sequence[Group], batch: tuple[Any, ...]
) -> list[np.ndarray | None]:
    """The sum over the rows of *batch* of the squared derivatives by gates, shape (1, units).

    These are (dL/dz)^2, with L the loss of a row and z the gate of a unit.
    """
    sites = {site_of(reading) for group in groups for reading in group.readings}
    with tf.GradientTape(watch_accessed_variables=False) as tape:

        def own(x: Any) -> Any:
            x = tf.identity(x)
            tape.watch(x)
            return x

        with gated(sites, own) as seen:
            loss = losses(batch)
    slopes = dict(zip(seen, tape.gradient(loss, list(seen.values())), strict=True))
    return [_squares_of(net, group, seen, slopes, rows_of(batch)) for group in groups]


def _squares_of(
    net: Network,
    group: Group,
    seen: Mapping[Site, list[Any]],
    slopes: Mapping[Site, list[Any]],
    count: int,
) -> np.ndarray | None:
    """Derivatives of *group* alone; None where the loss depends on nothing that is read of it."""
    known = [
        (site, reading, _array(x), _array(slope))
        for site, reading in {site_of(reading): reading for reading in group.readings}.items()
        for x, slope in zip(seen[site], slopes[site], strict=True)
        if slope is not None
    ]
    if not known:
        return None
    total = np.zeros((count, group.width))
    for site, reading, x, slope in known:
        roots = net.units.roots(reading.input_units)
        total += of_units(by_rows(x * slope, site.axis, count), roots, group.members)
    return np.square(total).sum(0, keepdims=True)


def expansion(
    losses: Losses, net: Network, groups: Sequence[Group], batch: tuple[Any, ...]
) -> list[np.ndarray | None]:
    """The sums of g w and w (H w) over the weights of each unit: shape (2, units).

    Here w are the weights that multiply a unit, and g and H the first and the second derivatives
    of the loss by all weights that multiply units of groups.
    """
    kernels = {id(r.kernel.variable): r.kernel.variable for g in groups for r in g.readings}
    values = [variable.value for variable in kernels.values()]
    weights = dict(zip(kernels, _of_units(net, groups, kernels), strict=True))
    with tf.GradientTape(watch_accessed_variables=False) as outer:
        outer.watch(values)
        with tf.GradientTape(watch_accessed_variables=False) as inner:
            inner.watch(values)
            loss = losses(batch)
        slopes = inner.gradient(loss, values)
        along = [
            tf.reduce_sum(tf.cast(weight, slope.dtype) * tf.convert_to_tensor(slope))
            for weight, slope in zip(weights.values(), slopes, strict=True)
            if slope is not None
        ]
        ahead = tf.add_n(along) if along else tf.zeros(())
    bends = outer.gradient(ahead, values) if along else [None] * len(values)
    first = {
        k: _array(slope) for k, slope in zip(kernels, slopes, strict=True) if slope is not None
    }
    second = {k: _array(bend) for k, bend in zip(kernels, bends, strict=True) if bend is not None}
    result: list[np.ndarray | None] = []
    for group in groups:
        bindings = [r.kernel for r in group.readings if id(r.kernel.variable) in first]
        total = np.zeros((2, group.width))
        for binding in bindings:
            key = id(binding.variable)
            for row, known in enumerate((first, second)):
                if key in known:
                    total[row] += unit_rows(net, binding, group, weights[key] * known[key]).sum(1)
        result.append(total if bindings else None)
    return result


def _array(tensor: Any) -> np.ndarray:
    return np.asarray(tf.convert_to_tensor(tensor), np.float64)


def _of_units(net: Network, groups: Sequence[Group], kernels: dict[int, Any]) -> list[np.ndarray]:
    """The values of *kernels* at weights that multiply a unit of *groups*, and 0 elsewhere."""
    masks = {key: np.zeros(variable.shape, bool) for key, variable in kernels.items()}
    for group in groups:
        for reading in group.readings:
            along = np.isin(net.units.roots(reading.kernel.units), group.members)
            np.moveaxis(masks[id(reading.kernel.variable)], reading.kernel.axis, 0)[along] = True
    return [
        np.where(masks[key], np.asarray(variable.numpy(), np.float64), 0.0)
        for key, variable in kernels.items()
    ]
