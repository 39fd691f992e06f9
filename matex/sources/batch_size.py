"""Number of rows that a batch of a tf.data pipeline can have. Pure, but for reading a constant."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

__all__ = ["most_rows"]

_BATCHES = ("_BatchDataset", "_ParallelBatchDataset", "_PaddedBatchDataset")

# What passes batches on, in whatever order, with the rows that they have.
_PASSING_ON = (
    "_CacheDataset",
    "_MapDataset",
    "_OptionsDataset",
    "_ParallelMapDataset",
    "_PrefetchDataset",
    "_RepeatDataset",
    "_ShuffleDataset",
    "_SkipDataset",
    "_TakeDataset",
)


def most_rows(dataset: tf.data.Dataset) -> int | None:
    """The rows of the largest batch of *dataset*; None where its construction does not tell.

    A map after the batch is believed to keep its rows; a batch that turns out to be larger
    fails its step.
    """
    sizes = {_rows_of(leaf) for leaf in tf.nest.flatten(dataset.element_spec)} - {None}
    if len(sizes) == 1:
        return sizes.pop()
    while type(dataset).__name__ in _PASSING_ON:
        (dataset,) = dataset._inputs()
    if type(dataset).__name__ not in _BATCHES:
        return None
    size = tf.get_static_value(dataset._batch_size)
    return None if size is None else int(size)


def _rows_of(leaf: Any) -> int | None:
    shape = getattr(leaf, "shape", None)
    return shape[0] if shape is not None and shape.rank else None
