"""Hooks into the way Keras takes data."""

from __future__ import annotations

import itertools
import types
from typing import Any

import keras
import tensorflow as tf
from keras.src.trainers import data_adapters
from keras.src.trainers.data_adapters import data_adapter_utils

__all__ = ["as_data", "dataset_of", "is_stream"]


def is_stream(x: Any) -> bool:
    """Whether *x* is data that come batch by batch."""
    return isinstance(x, tf.data.Dataset | keras.utils.PyDataset | types.GeneratorType) or (
        data_adapters.is_torch_dataloader(x) or data_adapters.is_grain_dataset(x)
    )


def dataset_of(feed: Any, *, most: int | None = None) -> Any:
    """The ``tf.data.Dataset`` that Keras's epoch iterator *feed* goes over.

    Args:
        most: number of batches taken of it until it begins anew, where that is known.
            From a generator no more are fetched ahead: how many that were would differ by rank,
            and what the generator gives next with it.
    """
    adapter = feed.data_adapter
    if most is not None and isinstance(adapter, data_adapters.GeneratorDataAdapter):
        batches = adapter.generator
        adapter.generator = lambda: itertools.islice(batches(), most)
    return feed._distributed_dataset


def as_data(batch: tuple[Any, ...]) -> Any:
    """The batch ``(x[, y[, sample_weight]])`` as ``train_step`` gets it from Keras's pipeline."""
    return data_adapter_utils.pack_x_y_sample_weight(*batch)
