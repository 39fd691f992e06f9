"""What matex needs of the way Keras takes data."""

from __future__ import annotations

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


def dataset_of(feed: Any) -> Any:
    """The ``tf.data.Dataset`` that Keras's epoch iterator *feed* goes over.

    That of a generator loses its prefetching, because how much a pass that ends early
    has fetched would differ from rank to rank.
    """
    adapter = feed.data_adapter
    if isinstance(adapter, data_adapters.GeneratorDataAdapter):
        dataset = feed._distributed_dataset
        if type(dataset).__name__ == "_PrefetchDataset":
            (feed._distributed_dataset,) = dataset._inputs()
    return feed._distributed_dataset


def as_data(batch: tuple[Any, ...]) -> Any:
    """The batch ``(x[, y[, sample_weight]])`` as ``train_step`` gets it from Keras's pipeline."""
    return data_adapter_utils.pack_x_y_sample_weight(*batch)
