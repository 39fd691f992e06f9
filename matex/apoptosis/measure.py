"""What the readers of a group see: Gram matrices of activations over a sample."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from matex.apoptosis.network import Network, Reading
from matex.apoptosis.trace import Group
from matex.apoptosis.units import occurrences

__all__ = ["Sums", "measured", "sums_like"]

# Of one batch: enough to tell 2000 channels apart, little beside the pass itself.
_ROWS = 1 << 14

Sums = list[list[np.ndarray]]


def sums_like(groups: Sequence[Group]) -> Sums:
    """Zeros of the shapes that :func:`measured` gives."""
    return [[np.zeros((g.width + 1,) * 2) for _ in g.readings] for g in groups]


def measured(model: Any, net: Network, groups: Sequence[Group], batches: Sequence[Any]) -> Sums:
    """For each group and reading the sum of [a, 1] [a, 1]^T over *batches* of inputs.

    Float64, shape (n + 1, n + 1); local. They add up over batches and over ranks.
    """
    result = sums_like(groups)
    readings = {
        (id(r.layer), id(r.kernel.variable), r.kernel.axis): r for g in groups for r in g.readings
    }
    with _watched(list(readings.values())) as seen:
        for x in batches:
            seen.clear()
            model(x, training=False)
            for g, group in enumerate(groups):
                for r, reading in enumerate(group.readings):
                    for inputs in seen.get(id(reading.layer), []):
                        result[g][r] += _second_moments(net, group, reading, inputs)
    return result


@contextlib.contextmanager
def _watched(readings: list[Reading]) -> Iterator[dict[int, list[Any]]]:
    """Collect the first input of every call of the readers' layers."""
    seen: dict[int, list[Any]] = {}
    layers = {id(reading.layer): reading.layer for reading in readings}

    def watching(layer: Any) -> Any:
        call = layer.call

        def watched(x: Any, *args: Any, **kwargs: Any) -> Any:
            seen.setdefault(id(layer), []).append(x)
            return call(x, *args, **kwargs)

        return watched

    for layer in layers.values():
        object.__setattr__(layer, "call", watching(layer))
    try:
        yield seen
    finally:
        for layer in layers.values():
            object.__delattr__(layer, "call")


def _second_moments(net: Network, group: Group, reading: Reading, inputs: Any) -> np.ndarray:
    x = reading.seen(inputs) if reading.seen is not None else inputs
    axis = reading.input_axis
    last = len(x.shape) - 1
    if axis != last:
        x = tf.transpose(x, [*(i for i in range(last + 1) if i != axis), axis])
    rows = np.asarray(x, np.float32).reshape(-1, x.shape[-1])
    places = occurrences(net.units.roots(reading.input_units), group.members)
    step = max(1, len(rows) * len(places) // _ROWS)
    step += step % 2 == 0 and step > 1  # an even one might see every other column alone
    rows = rows[::step]
    if (places < 0).any():
        rows = np.hstack([rows, np.zeros((len(rows), 1), np.float32)])  # -1 is a column of zeros
    columns = rows[:, places].reshape(-1, group.width).astype(np.float64)
    columns = np.hstack([columns, np.ones((len(columns), 1))])
    return columns.T @ columns
