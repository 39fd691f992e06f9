"""Two passes over a tf.data pipeline, seeded alike, give the same, in this process."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from matex.sources.map_functions import chance_decides
from matex.sources.one_order import one_order
from matex.sources.tfdata_reorder import with_batch_before_map

ROWS, PASSES = 120, 2


def numbers() -> tf.data.Dataset:
    return tf.data.Dataset.range(ROWS).map(lambda i: tf.cast(i, tf.float32))


def noisy(x: Any) -> Any:
    return x + tf.random.uniform([])


def flipped() -> tf.data.Dataset:
    layer = keras.layers.RandomTranslation(0.4, 0.4)
    images = numbers().batch(2).map(lambda x: tf.reshape(x, [1, 2]) * tf.ones([4, 4, 1]))
    return images.cache().map(lambda x: layer(x[None], training=True), num_parallel_calls=4)


def from_numpy(x: Any) -> Any:
    return tf.numpy_function(lambda value: np.float32(value + random.random()), [x], tf.float32)


def nested(i: Any) -> tf.data.Dataset:
    return tf.data.Dataset.range(i % 5).map(lambda x: noisy(tf.cast(x, tf.float32)))


def parallel(i: Any) -> tf.data.Dataset:
    inner = tf.data.Dataset.range(i % 5)
    return inner.map(lambda x: noisy(tf.cast(x, tf.float32)), num_parallel_calls=2)


def slow_at_first(x: Any) -> Any:
    spent = tf.while_loop(
        lambda n, _: n < 500 * tf.cast(x % 4 < 1, tf.int32),
        lambda n, total: (n + 1, total + tf.cast(n, tf.float32)),
        (0, 0.0),
    )[1]
    return x + 0.0 * spent


LEFT_TO_CHANCE: dict[str, Callable[[], tf.data.Dataset]] = {
    "random": lambda: numbers().map(noisy, num_parallel_calls=4).batch(7).prefetch(2),
    "a layer of Keras": flipped,
    "numpy": lambda: numbers().map(from_numpy, num_parallel_calls=4).batch(7),
    "before and after": lambda: (
        numbers().map(noisy).map(slow_at_first, num_parallel_calls=4).map(noisy).prefetch(9)
    ),
    "interleave": lambda: (
        tf.data.Dataset.range(ROWS).interleave(nested, cycle_length=4, num_parallel_calls=4)
    ),
    "inner": lambda: tf.data.Dataset.range(ROWS).flat_map(parallel).shuffle(5),
    "not deterministic": lambda: numbers().map(
        slow_at_first, num_parallel_calls=4, deterministic=False
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", LEFT_TO_CHANCE)
def test_nothing_is_left_to_chance(kind: str) -> None:
    def passes() -> list[Any]:
        keras.utils.set_random_seed(5)
        dataset = LEFT_TO_CHANCE[kind]()
        assert chance_decides(dataset)
        ordered = one_order(dataset)
        assert ordered.element_spec == dataset.element_spec
        assert ordered.cardinality() == dataset.cardinality()
        return [element.numpy().tolist() for _ in range(PASSES) for element in ordered]

    first = passes()
    assert len(first) >= PASSES
    for _ in range(4):
        assert passes() == first


def test_nothing_is_left_to_chance_before_the_maps_that_are_shared() -> None:
    source = tf.data.Dataset.range(99).interleave(
        lambda i: tf.data.Dataset.from_tensors(slow_at_first(tf.cast(i, tf.float32))).repeat(3),
        cycle_length=4,
        num_parallel_calls=4,
        deterministic=False,
    )
    pipeline = with_batch_before_map(source.map(lambda x: 2.0 * x).batch(4))
    assert pipeline is not None
    read = [raw.numpy().tolist() for (raw,) in pipeline.raw]
    for _ in range(5):
        assert [raw.numpy().tolist() for (raw,) in pipeline.raw] == read


@pytest.mark.parametrize(
    "dataset",
    [
        numbers().map(lambda x: x + 1, num_parallel_calls=4).shuffle(9).batch(7).prefetch(2),
        numbers().map(noisy).prefetch(2),
        tf.data.TextLineDataset(["a"], num_parallel_reads=2).map(tf.strings.length),
    ],
    ids=["no state", "one at a time", "files"],
)
def test_what_is_not_left_to_chance_stays_as_it_is(dataset: tf.data.Dataset) -> None:
    assert type(one_order(dataset)).__name__ == "_OptionsDataset"
