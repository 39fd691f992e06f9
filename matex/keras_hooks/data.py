"""Hooks into Keras's handling of data."""

from __future__ import annotations

import contextlib
import functools
import itertools
import types
import weakref
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras.src.trainers import data_adapters
from keras.src.trainers.data_adapters import data_adapter_utils
from keras.src.trainers.data_adapters.array_data_adapter import ArrayDataAdapter

from matex.keras_hooks.warning import unwarned
from matex.replacing import replace

__all__ = [
    "as_data",
    "constant_batch_size",
    "dataset_of",
    "go_over",
    "is_dataset",
    "is_stream",
    "leave_autotuning",
    "reading_alone",
    "shuffled_rows",
]

_AHEAD = 2  # elements

_read_exactly: weakref.WeakSet[Any] = weakref.WeakSet()  # pipelines that are not read ahead


def is_dataset(x: Any) -> bool:
    """Whether *x* is a tf.data pipeline."""
    return isinstance(x, tf.data.Dataset)


@contextlib.contextmanager
def reading_alone(model: Any) -> Iterator[None]:
    """Context in which Keras's fit, whose steps only read, leaves *model* as it is.

    Metrics that no step has built have no results, and no average of weights becomes the weights.
    """
    shadows: list[tuple[Any, str, Any]] = [(model, "get_metrics_result", dict)]
    if model.optimizer is not None:
        shadows.append((model.optimizer, "finalize_variable_values", lambda variables: None))
    for owner, name, stand_in in shadows:
        vars(owner)[name] = stand_in  # Keras would track what is set as ever
    try:
        yield
    finally:
        for owner, name, _ in shadows:
            del vars(owner)[name]


def constant_batch_size(dataset: Any) -> int | None:
    """Rows of a batch of *dataset*, which makes batches; None if they are known as it runs only."""
    size = tf.get_static_value(dataset._batch_size)
    return None if size is None else int(size)


def is_stream(x: Any) -> bool:
    """Whether *x* is data that arrive in batches."""
    return isinstance(x, tf.data.Dataset | keras.utils.PyDataset | types.GeneratorType) or (
        data_adapters.is_torch_dataloader(x) or data_adapters.is_grain_dataset(x)
    )


def dataset_of(feed: Any, *, limit: int | None = None) -> Any:
    """The ``tf.data.Dataset`` that Keras's epoch iterator *feed* goes over. Local.

    Where the number of steps is given, as many batches are fetched as by plain Keras, on every rank
    and whatever threads do: from a generator those that the steps take, from a pipeline one more,
    as by plain Keras while steps take longer than batches. Otherwise the generator's next element,
    or the order that a repeated pipeline shuffles anew, would be another one for who reads the data
    next.

    Args:
        limit: number of batches that steps take until the data begin anew; None if unknown.
    """
    adapter, dataset = feed.data_adapter, feed._distributed_dataset
    if feed.steps_per_epoch is None:
        return dataset
    if isinstance(adapter, data_adapters.GeneratorDataAdapter):
        batches, count = adapter.generator, limit or feed.steps_per_epoch
        adapter.generator = lambda: itertools.islice(batches(), count)
    elif is_dataset(dataset):
        go_over(feed, _cut_off(dataset, limit))
    return dataset


def _cut_off(dataset: Any, limit: int | None) -> Any:
    """*dataset* that fetches at most a batch after *limit*; for None, after each one taken."""
    last, size = dataset, None
    while type(last).__name__ == "_OptionsDataset":
        (last,) = last._inputs()
    if type(last).__name__ == "_PrefetchDataset":
        size = int(last._buffer_size)
        (last,) = last._inputs()
    made = last if limit is None else last.take(limit + 1)
    if limit is not None and size is not None:
        made = made.prefetch(size)
    made = made.with_options(dataset.options())
    if limit is None or not _may_be_read_ahead(last):
        _read_exactly.add(made)
    return made


def go_over(feed: Any, dataset: Any) -> None:
    """Let Keras's epoch iterator *feed* go over *dataset*, and count batches as before. Local."""
    feed._distributed_dataset = dataset


def _may_be_read_ahead(dataset: Any) -> bool:
    """Whether *dataset* may get a prefetch: not if it has one at its end.

    Nor may a pipeline of :func:`matex.sources.one_order.one_order`, which is a variant, and whose
    functions must not run ahead of the main program.
    """
    last = dataset
    while type(last).__name__ == "_OptionsDataset":
        (last,) = last._inputs()
    return type(last).__name__ not in ("_PrefetchDataset", "_VariantDataset")


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

    replace(tf.data.Dataset, "__iter__", replacement)


def _untuned(dataset: Any) -> Any:
    if dataset.options().autotune.enabled is not None:
        return dataset
    options = tf.data.Options()
    options.autotune.enabled = False
    return _read_ahead(dataset).with_options(options)


def _read_ahead(dataset: Any) -> Any:
    """*dataset* with a prefetch, which autotuning would append, unless it must not have one."""
    if dataset not in _read_exactly and _may_be_read_ahead(dataset):
        return dataset.prefetch(_AHEAD)
    return dataset


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

    # It is intended here that the operations take the seed of the graph around them.
    with unwarned():
        traced = tf.function(order, autograph=False).get_concrete_function()
    found: np.ndarray = traced().numpy()
    return found
