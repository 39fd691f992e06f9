"""Hooks into Keras's handling of data."""

from __future__ import annotations

import functools
import itertools
import types
import warnings
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras.src.trainers import data_adapters
from keras.src.trainers.data_adapters import data_adapter_utils
from keras.src.trainers.data_adapters.array_data_adapter import ArrayDataAdapter

__all__ = ["as_data", "dataset_of", "is_dataset", "is_stream", "leave_autotuning", "shuffled_rows"]

_AHEAD = 2  # elements


def is_dataset(x: Any) -> bool:
    """Whether *x* is a tf.data pipeline."""
    return isinstance(x, tf.data.Dataset)


def is_stream(x: Any) -> bool:
    """Whether *x* is data that arrive in batches."""
    return isinstance(x, tf.data.Dataset | keras.utils.PyDataset | types.GeneratorType) or (
        data_adapters.is_torch_dataloader(x) or data_adapters.is_grain_dataset(x)
    )


def dataset_of(feed: Any, *, most: int | None = None) -> Any:
    """The ``tf.data.Dataset`` that Keras's epoch iterator *feed* goes over.

    Args:
        most: number of batches until it starts again; None if unknown.
            From a generator no more batches are fetched ahead: their number would differ by rank,
            and so would the generator's next element.
    """
    adapter = feed.data_adapter
    if most is not None and isinstance(adapter, data_adapters.GeneratorDataAdapter):
        batches = adapter.generator
        adapter.generator = lambda: itertools.islice(batches(), most)
    return feed._distributed_dataset


def leave_autotuning() -> None:
    """Leave autotuning out of the pipelines that are iterated over from now on. Local, once.

    Autotuning has a thread for each iterator, which sleeps twice as long each time, up to a minute.
    Whoever ends the iterator waits for it, because it may miss its cancellation: it looks whether
    it is cancelled before that is noted. So an epoch of 1.4 s took 2.5 s. Without it parallel
    functions have as many threads as TensorFlow gives them at first. Elements and their order stay.

    A pipeline that sets ``options.autotune.enabled`` itself keeps it.
    """
    original = tf.data.Dataset.__iter__

    @functools.wraps(original)
    def replacement(self: Any) -> Any:
        return original(_untuned(self) if tf.executing_eagerly() else self)

    tf.data.Dataset.__iter__ = replacement


def _untuned(dataset: Any) -> Any:
    if dataset.options().autotune.enabled is not None:
        return dataset
    options = tf.data.Options()
    options.autotune.enabled = False
    return _read_ahead(dataset).with_options(options)


def _read_ahead(dataset: Any) -> Any:
    """*dataset* with a prefetch, which autotuning would append, unless it must not have one.

    A pipeline of :func:`matex.sources.one_order.one_order` is a variant, whose functions must not
    run ahead of the main program.
    """
    last = dataset
    while type(last).__name__ == "_OptionsDataset":
        (last,) = last._inputs()
    has_its_own = type(last).__name__ in ("_PrefetchDataset", "_VariantDataset")
    return dataset if has_its_own else dataset.prefetch(_AHEAD)


def as_data(batch: tuple[Any, ...]) -> Any:
    """Argument of ``train_step`` that Keras's pipeline makes of ``(x[, y[, sample_weight]])``."""
    return data_adapter_utils.pack_x_y_sample_weight(*batch)


def shuffled_rows(samples: int, batch_size: int, shuffle: Any, *, seed: int) -> np.ndarray:
    """Row numbers (int64, shape (samples,)) in the order of an epoch of plain Keras. Local.

    Keras shuffles within a tf.data pipeline, whose seeds follow from the seed for all operations
    alone, and each epoch begins that pipeline anew: all epochs have the same order. It is found
    by Keras's own pipeline over the row numbers, in a graph that has *seed*, so nothing of the
    script's generators is moved.

    Args:
        samples: number of rows.
        batch_size: number of rows of a step; used if *shuffle* is ``"batch"``.
        shuffle: argument of ``fit``, true or ``"batch"``.
        seed: seed for all operations, as in ``tf.random.set_seed``.
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
        # It is intended here that the operations take the seed of the graph around them.
        warnings.filterwarnings("ignore", message="Seed .* from outer graph")
        traced = tf.function(order, autograph=False).get_concrete_function()
    found: np.ndarray = traced().numpy()
    return found
