"""The order in which Keras's own ``fit`` takes the rows of arrays."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import tensorflow as tf
from keras.src.trainers.data_adapters.array_data_adapter import ArrayDataAdapter

__all__ = ["shuffled_rows"]


def shuffled_rows(samples: int, batch_size: int, shuffle: Any, *, seed: int) -> np.ndarray:
    """Row numbers (int64, shape (samples,)) in the order of an epoch of plain Keras. Local.

    Keras shuffles within a tf.data pipeline, whose seeds follow from the seed for all operations
    alone, and each epoch begins that pipeline anew: all epochs have the same order. It is found
    by Keras's own pipeline over the row numbers, in a graph that has *seed*, so nothing of the
    script's generators is moved.

    Args:
        samples: number of rows.
        batch_size: rows of a step; it counts where *shuffle* is ``"batch"``.
        shuffle: argument of ``fit``, true or ``"batch"``.
        seed: seed for all operations, as ``tf.random.set_seed`` takes it.
    """
    within_batches = isinstance(shuffle, str) and shuffle == "batch"

    def order() -> Any:
        tf.compat.v1.get_default_graph().seed = seed
        rows = tf.range(samples, dtype=tf.int64)
        size = batch_size if within_batches else samples
        adapter = ArrayDataAdapter(rows, batch_size=size, shuffle=shuffle)
        pipeline = adapter.get_tf_dataset()
        if within_batches:
            pipeline = pipeline.unbatch().batch(samples)
        return pipeline.get_single_element()

    with warnings.catch_warnings():
        # That the operations take the seed of the graph around them is what is wanted here.
        warnings.filterwarnings("ignore", message="Seed .* from outer graph")
        traced = tf.function(order, autograph=False).get_concrete_function()
    found: np.ndarray = traced().numpy()
    return found
