"""Turning a tf.data pipeline round, in this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from matex.errors import NotShareable
from matex.sources.tfdata_reorder import with_batch_before_map


def squares() -> tf.data.Dataset:
    return tf.data.Dataset.range(10).shuffle(10, seed=1).map(lambda i: {"square": i * i})


def test_each_place_maps_its_rows_of_each_batch() -> None:
    def dataset() -> tf.data.Dataset:
        return squares().map(lambda row: (row["square"], -row["square"])).batch(4).prefetch(1)

    whole = list(dataset())
    for place in range(3):
        pipeline = with_batch_before_map(dataset())
        assert pipeline is not None
        ahead = list(pipeline.ahead(tf.Variable([place, 3], dtype=tf.int64)))
        assert [len(raw[0]) for raw, _, _ in ahead] == [4, 4, 2]
        for (raw, mapped, rows), (square, negative) in zip(ahead, whole, strict=True):
            lo, hi = rows.numpy()
            np.testing.assert_array_equal(mapped[0], square[lo:hi])
            np.testing.assert_array_equal(mapped[1], negative[lo:hi])
            np.testing.assert_array_equal(raw[0] ** 2, square)  # not mapped
            np.testing.assert_array_equal(pipeline.map(raw)[0], square)


def test_a_pipeline_without_maps_has_nothing_to_share() -> None:
    assert with_batch_before_map(tf.data.Dataset.range(10).batch(4)) is None


def numbers() -> tf.data.Dataset:
    return tf.data.Dataset.range(23)


def square(i: Any) -> Any:
    return i * i


# What orders, repeats or leaves out elements or batches goes before the maps.
REORDERED: dict[str, Callable[[], tf.data.Dataset]] = {
    "shuffle": lambda: numbers().map(square).shuffle(9).batch(4),
    "seeded": lambda: numbers().map(square).shuffle(9, seed=4).repeat(2).batch(4),
    "fixed": lambda: (
        numbers()
        .map(square)
        .shuffle(9, reshuffle_each_iteration=False)
        .batch(4, drop_remainder=True)
    ),
    "between": lambda: numbers().shuffle(9).map(square).shuffle(9).map(square).repeat(2).batch(4),
    "left-out": lambda: numbers().map(square).shuffle(9).take(17).skip(2).batch(4).skip(1).take(3),
    "batches": lambda: numbers().map(square).batch(4).shuffle(3).prefetch(1).repeat(2),
    "batches-at-once": lambda: numbers().map(square).batch(4).shuffle(3).repeat(2),
    "zipped": lambda: (
        tf.data.Dataset.zip((numbers(), numbers()))
        .map(lambda a, b: {"a": a, "b": -b})
        .shuffle(9)
        .batch(4)
    ),
}


@pytest.mark.parametrize("looked_at", [0, 2], ids=["fresh", "looked at before"])
@pytest.mark.parametrize("name", REORDERED)
def test_orders_are_those_of_the_whole_pipeline(name: str, looked_at: int) -> None:
    def made() -> tf.data.Dataset:
        tf.random.set_seed(7)
        dataset = REORDERED[name]()
        for _ in range(looked_at):
            list(dataset.take(1))
        return dataset

    whole = made()
    wanted = [list(whole) for _ in range(3)]
    pipeline = with_batch_before_map(made())  # holds what it needs of the other
    assert pipeline is not None
    ahead = pipeline.ahead(tf.Variable([1, 2], dtype=tf.int64))
    for epoch in wanted:
        for batch, (raw, mine, (lo, hi)) in zip(epoch, list(ahead), strict=True):
            for all_rows, rows, anew in zip(
                tf.nest.flatten(batch), mine, pipeline.map(raw), strict=True
            ):
                np.testing.assert_array_equal(all_rows[lo:hi], rows)
                np.testing.assert_array_equal(all_rows, anew)


def looked_up() -> dict[str, Callable[[Any], Any]]:
    words = keras.layers.StringLookup(vocabulary=["a", "b", "c"])
    adapted = keras.layers.StringLookup()
    adapted.adapt(np.array(["a", "b", "b c"]))
    lengths = keras.layers.IntegerLookup(vocabulary=[1, 2])
    pairs = tf.lookup.KeyValueTensorInitializer(["a", "b c"], tf.constant([1, 0], tf.int64))
    static = tf.lookup.StaticHashTable(pairs, -1)
    changing = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, 0)
    changing.insert(tf.constant(["b"]), tf.constant([4], tf.int64))
    variable = tf.Variable([1.0, 2.0, 3.0, 4.0])
    return {
        "StringLookup": words,
        "adapted": adapted,
        "one-hot": keras.layers.StringLookup(vocabulary=["a", "b"], output_mode="one_hot"),
        "IntegerLookup": lambda word: lengths(tf.strings.length(word)),
        "Hashing": keras.layers.Hashing(5, salt=3),
        "TextVectorization": keras.layers.TextVectorization(
            output_sequence_length=3, vocabulary=["a", "b"]
        ),
        "StaticHashTable": static.lookup,
        "StaticVocabularyTable": tf.lookup.StaticVocabularyTable(pairs, 3).lookup,
        "MutableHashTable": changing.lookup,
        "variable": lambda word: tf.gather(variable, tf.strings.length(word)),
        "a function": tf.function(words.call),
        "a branch": lambda word: tf.cond(
            tf.strings.length(word) > 1, lambda: words(word), lambda: static.lookup(word)
        ),
    }


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("kind", looked_up())
def test_tables_are_looked_up_by_each_place(kind: str, shuffled: bool) -> None:
    words = tf.data.Dataset.from_tensor_slices(["a", "b c", "d", "b", "a"])
    dataset = words.map(looked_up()[kind], num_parallel_calls=2)
    if shuffled:
        dataset = dataset.shuffle(5, seed=2, reshuffle_each_iteration=False)
    dataset = dataset.batch(3)
    pipeline = with_batch_before_map(dataset)
    assert pipeline is not None
    ahead = pipeline.ahead(tf.Variable([0, 2], dtype=tf.int64))
    for batch, (raw, mine, (lo, hi)) in zip(dataset, ahead, strict=True):
        np.testing.assert_array_equal(batch[lo:hi], mine[0])
        np.testing.assert_array_equal(batch, pipeline.map(raw)[0])


@tf.function
def drawn(i: Any) -> Any:
    return tf.random.uniform([]) + tf.cast(i, tf.float32)


@pytest.mark.parametrize(
    ("dataset", "reason"),
    [
        (squares().cache().batch(4), "'cache' between its last map and the batch"),
        (squares().batch(4).cache(), "'cache' after its last batch"),
        (squares().batch(4).map(lambda row: row), "'map' after its last batch"),
        (tf.data.Dataset.range(9).map(drawn).batch(4), "RandomUniform"),
        (tf.data.Dataset.range(9).map(lambda i: tf.random.uniform([])).batch(4), "RandomUniform"),
        (
            tf.data.Dataset.range(9)
            .map(lambda i: tf.numpy_function(lambda j: j, [i], tf.int64))
            .batch(4),
            "PyFunc",
        ),
    ],
)
def test_what_could_change_the_result_is_refused(dataset: tf.data.Dataset, reason: str) -> None:
    with pytest.raises(NotShareable, match=reason):
        with_batch_before_map(dataset)


def test_texts_count_by_their_lengths_where_a_shuffle_is_looked_into() -> None:
    texts = tf.constant(["x" * (1 << 20)] * 65)
    dataset = tf.data.Dataset.from_tensor_slices(texts).map(tf.strings.length).shuffle(65)
    with pytest.raises(NotShareable, match="more than 64 MB"):
        with_batch_before_map(dataset.batch(5))
