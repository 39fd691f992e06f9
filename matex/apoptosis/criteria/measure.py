"""Gram matrices, over a sample, of the activations that the readers of a group see."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from matex import keras_hooks
from matex.apoptosis.graph.layer_calls import Call, calls_replaced
from matex.apoptosis.graph.network import Network, Reading
from matex.apoptosis.graph.trace import Group
from matex.apoptosis.graph.units import occurrences

__all__ = ["Sums", "add", "numbers", "rows_wanted", "samples_needed", "stride", "views"]

# Rows of a second moment for each unit, and at least.
_PER_UNIT, _LEAST = 2, 1024

# The same for positions of which a sample has several: they are much alike.
_PER_UNIT_ALIKE, _LEAST_ALIKE = 12, 4096

Sums = list[list[np.ndarray]]


def numbers(groups: Sequence[Group]) -> int:
    """Number of elements in all sums of *groups*."""
    return sum((g.width + 1) ** 2 for g in groups for _ in g.readings)


def views(groups: Sequence[Group], vector: np.ndarray) -> Sums:
    """The sums of *groups* in *vector*, float64 of shape (:func:`numbers`,), without a copy."""
    result: Sums = []
    at = 0
    for group in groups:
        side = group.width + 1
        result.append([])
        for _ in group.readings:
            result[-1].append(vector[at : at + side * side].reshape(side, side))
            at += side * side
    return result


def add(
    model: Any,
    net: Network,
    groups: Sequence[Group],
    batches: Iterable[tuple[int, Any]],
    samples: int,
    sums: Sums,
) -> None:
    """Add the second moments [a, 1] [a, 1]^T over *batches* to *sums*, by group and reading; local.

    They add up over batches and over ranks: which rows are looked at, where not all of them
    are needed, does not depend on how they are cut.

    Args:
        batches: pairs of a batch's first sample number and its inputs.
        samples: number of samples in all, on all ranks.
        sums: each float64, shape (n + 1, n + 1).
    """
    readings = {
        (id(r.layer), id(r.kernel.variable), r.kernel.axis): r for g in groups for r in g.readings
    }
    with _watched(list(readings.values())) as seen:
        for first, x in batches:
            count = len(keras_hooks.flatten(x)[0])
            seen.clear()
            model(x, training=False)
            for g, group in enumerate(groups):
                for r, reading in enumerate(group.readings):
                    for inputs in seen.get(id(reading.layer), []):
                        rows = _rows(reading, inputs)
                        if rows is None:
                            continue
                        places = occurrences(net.units.roots(reading.input_units), group.members)
                        each = max(1, len(rows) // count)
                        _add(sums[g][r], rows, places, first=first, samples=samples, each=each)


@contextlib.contextmanager
def _watched(readings: list[Reading]) -> Iterator[dict[int, list[Any]]]:
    """Collect the first input of every call of the readers' layers."""
    seen: dict[int, list[Any]] = {}

    def watching(layer: Any, call: Call) -> Call:
        def watched(x: Any, *args: Any, **kwargs: Any) -> Any:
            seen.setdefault(id(layer), []).append(x)
            return call(x, *args, **kwargs)

        return watched

    with calls_replaced([reading.layer for reading in readings], watching):
        yield seen


def _rows(reading: Reading, inputs: Any) -> np.ndarray | None:
    """The activations that *reading* multiplies, float32, shape (rows, units), in sample order.

    None where this call of its layer is of another kind.
    """
    x = reading.seen(inputs) if reading.seen is not None else inputs
    if x is None:
        return None
    rows = np.moveaxis(np.asarray(x, np.float32), reading.input_axis, -1)
    return rows.reshape(-1, rows.shape[-1])


def samples_needed(net: Network, groups: Sequence[Group], limit: int) -> int:
    """Number of samples, up to *limit*, on which to measure *groups*; local.

    It is *limit* where a kernel reads its units several times in each sample, as in a picture.
    """
    counts = {id(variable): count for variable, count in net.work}
    rows = 1
    for group in groups:
        for reading in group.readings:
            times = len(occurrences(net.units.roots(reading.input_units), group.members))
            if times * counts.get(id(reading.kernel.variable), math.inf) > 1:
                return limit
            rows = max(rows, _wanted(group.width, alike=False))
    return min(limit, rows)


def rows_wanted(net: Network, groups: Sequence[Group]) -> int:
    """Number of samples that give every group at least as many rows as units."""
    counts = {id(variable): count for variable, count in net.work}
    return max(
        (
            math.ceil(group.width / max(1.0, counts.get(id(reading.kernel.variable), 1.0)))
            for group in groups
            for reading in group.readings
        ),
        default=1,
    )


def _wanted(units: int, *, alike: bool) -> int:
    per_unit, least = (_PER_UNIT_ALIKE, _LEAST_ALIKE) if alike else (_PER_UNIT, _LEAST)
    return max(least, per_unit * units)


def stride(rows: int, units: int, *, alike: bool) -> int:
    """Step between the *rows* that are measured. Pure.

    Args:
        alike: whether each sample has several rows.
    """
    step = max(1, rows // _wanted(units, alike=alike))
    # An even one might see every other position of a picture alone.
    return step + (alike and step > 1 and step % 2 == 0)


def _add(
    total: np.ndarray, rows: np.ndarray, places: np.ndarray, *, first: int, samples: int, each: int
) -> None:
    """Add to *total* the sum of [a, 1] [a, 1]^T over some of *rows*.

    Args:
        total: shape (n + 1, n + 1), float64.
        rows: shape (rows, columns), float32: *each* rows of every sample from *first* on.
        places: the columns of the n units, shape (times, n); -1 is a column of zeros.
    """
    times, width = places.shape
    step = stride(samples * each * times, width, alike=each * times > 1)
    rows = rows[-first * each % step :: step]
    columns = np.empty((len(rows) * times, width + 1))
    columns[:, width] = 1.0
    if times == 1 and np.array_equal(places[0], np.arange(rows.shape[1])):
        columns[:, :width] = rows
    else:
        if (places < 0).any():
            rows = np.hstack([rows, np.zeros((len(rows), 1), np.float32)])
        columns[:, :width] = rows[:, places].reshape(-1, width)
    if total[-1, -1]:
        total += columns.T @ columns
    else:  # nothing has been added to it
        np.matmul(columns.T, columns, out=total)
