"""The rows that apoptosis looks at: some of the training data, and some that are held out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from matex import keras_hooks
from matex.data import Batches
from matex.errors import InputError, Unsupported

__all__ = ["Sample", "held_out_of", "sample_of"]

# Numbers that go into the network at once.
_NUMBERS = 1 << 20
_ROWS = (32, 2048)
# Bytes of a tf.data pipeline's rows that are kept, for want of a way to read them again.
_KEPT = 256 << 20


class Sample:
    """*count* rows of *batches*, evenly spread. Local to read; the same on all ranks.

    ``size`` rows are in it, ``of`` so many.
    """

    def __init__(self, batches: Batches, count: int, *, offset: float = 0.0) -> None:
        self._batches = batches
        self._offset = offset
        self.of = batches.samples
        self.size = min(count, batches.samples)
        spread = (np.arange(self.size) + offset) * (batches.samples / self.size)
        self._indices = spread.astype(np.int64) % batches.samples
        leaves = tf.nest.flatten(batches.signature[0])
        row = sum(int(np.prod(leaf.shape[1:])) for leaf in leaves)
        self._at_once = int(np.clip(_NUMBERS // max(1, row), *_ROWS))

    def fewer(self, count: int) -> Sample:
        """Sample of *count* rows of the same batches, if that is fewer; local."""
        return self if count >= self.size else Sample(self._batches, count, offset=self._offset)

    def batches(self, spans: list[tuple[int, int]]) -> list[tuple[Any, ...]]:
        """``(x[, y[, sample_weight]])`` of the rows of *spans*, [lo, hi) within the sample."""
        return [
            self._batches.rows(self._indices[at : min(at + self._at_once, hi)])
            for lo, hi in spans
            for at in range(lo, hi, self._at_once)
        ]

    def starts(self, spans: list[tuple[int, int]]) -> list[int]:
        """The number within the sample of the first row of each of :meth:`batches`."""
        return [at for lo, hi in spans for at in range(lo, hi, self._at_once)]


def sample_of(
    given: dict[str, Any],
    count: int,
    *,
    offset: float = 0.0,
    class_weight: Mapping[int, float] | None = None,
) -> Sample:
    """Sample of the data of a fit: ``x``, and ``y`` and ``sample_weight`` if given.

    Args:
        given: data by name.
        count: largest number of rows.
        offset: place of the first row, as a fraction of the distance from one to the next.
        class_weight: weights of classes, for rows of one ``y`` that have no weights of their own;
            none by default.

    Raises:
        InputError: data that go by once, of which nothing can be looked at beforehand.
    """
    x = given["x"]
    if isinstance(x, tf.data.Dataset):
        return Sample(_weighed(_first_of(x, count), class_weight), count, offset=offset)
    if keras_hooks.is_stream(x):
        raise InputError(
            "apoptosis looks at some of the training data, and data that come batch by batch "
            f"cannot be looked at twice. Received: {type(x).__name__}; give it some rows: "
            "matex.Apoptosis(data=(x, y))"
        )
    try:
        parts = [given.get(name) for name in ("y", "sample_weight")]
        batches = _weighed((x, *parts), class_weight)
    except Unsupported as error:
        raise InputError(
            f"apoptosis wants arrays to look at: {error}; give it matex.Apoptosis(data=(x, y))"
        ) from error
    return Sample(batches, count, offset=offset)


def held_out_of(
    training: dict[str, Any],
    validation: dict[str, Any] | None,
    count: int,
    *,
    class_weight: Mapping[int, float] | None = None,
) -> Sample:
    """Rows to evaluate an event: of the validation data, or else of the training data.

    Keras does not weigh the former by class; here both have the objective of training, whose gain
    limits what an event may cost.
    """
    if validation is not None and not _goes_by(validation["x"]):
        return sample_of(validation, count, class_weight=class_weight)
    return sample_of(training, count, offset=0.5, class_weight=class_weight)


def _weighed(rows: tuple[Any, ...], class_weight: Mapping[int, float] | None) -> Batches:
    x, y, weight = (*rows, None, None)[:3]
    is_one = y is not None and weight is None and not tf.nest.is_nested(y)
    return Batches(x, y, weight, class_weight=class_weight if is_one else None)


def _goes_by(x: Any) -> bool:
    return keras_hooks.is_stream(x) and not isinstance(x, tf.data.Dataset)


def _first_of(dataset: tf.data.Dataset, count: int) -> tuple[Any, ...]:
    parts: list[tuple[Any, ...]] = []
    rows = kept = 0
    for batch in dataset:
        parts.append(batch if isinstance(batch, tuple) else (batch,))
        rows += int(tf.nest.flatten(batch)[0].shape[0])
        kept += sum(leaf.shape.num_elements() * leaf.dtype.size for leaf in tf.nest.flatten(batch))
        if rows >= count or kept >= _KEPT:
            break
    joined: tuple[Any, ...]
    joined = tf.nest.map_structure(lambda *leaves: np.concatenate(leaves), *parts)
    return joined
