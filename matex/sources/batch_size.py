"""Largest number of rows in a batch of a tf.data pipeline. Pure, but for reading a constant."""

from __future__ import annotations

from typing import Any

from matex import keras_hooks
from matex.keras_hooks.data import constant_batch_size

__all__ = ["most_rows"]

# The names of TensorFlow's classes, some of which are private, without "_" and "Dataset".
_BATCHES = ("Batch", "ParallelBatch", "PaddedBatch")

# Operations that pass batches on, in any order, with their rows.
_PASSING_ON = (
    "AssertCardinality",
    "Cache",
    "Concatenate",
    "DirectedInterleave",
    "Filter",
    "IgnoreErrors",
    "Map",
    "Options",
    "ParallelMap",
    "Prefetch",
    "Repeat",
    "Shard",
    "Shuffle",
    "Skip",
    "Take",
    "TakeWhile",
    "Zip",
)


def most_rows(dataset: Any) -> int | None:
    """Rows of the largest batch of the pipeline *dataset*; None if its construction does not tell.

    A map after the batch is believed to keep its rows; a batch that turns out to be larger
    fails its step.
    """
    sizes = {_rows_of(leaf) for leaf in keras_hooks.flatten(dataset.element_spec)} - {None}
    if len(sizes) == 1:
        return sizes.pop()
    kind = type(dataset).__name__.strip("_").removesuffix("Dataset")
    if kind in _PASSING_ON:
        each = [most_rows(passed_on) for passed_on in _passed_on(dataset)]
        known = [rows for rows in each if rows is not None]
        return max(known) if known and len(known) == len(each) else None
    return constant_batch_size(dataset) if kind in _BATCHES else None


def _passed_on(dataset: Any) -> list[Any]:
    """Datasets whose batches *dataset* passes on unchanged."""
    # A choice among datasets has one more input, the numbers of the chosen ones.
    return list(getattr(dataset, "_data_inputs", None) or dataset._inputs())


def _rows_of(leaf: Any) -> int | None:
    shape = getattr(leaf, "shape", None)
    return shape[0] if shape is not None and shape.rank else None
