"""Numbers of look-ups of a row, as the graph of a step tells them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

from matex import keras_hooks
from matex.partition.slot_capacity import SlotCapacity
from matex.steps.graphs.look_ups import look_ups

FREE = tf.TensorSpec((None, None), tf.int32)
TWO = tf.TensorSpec((None, None, 2), tf.int32)
SPELLED = tf.TensorSpec((None, None, None), tf.int32)
RAGGED = tf.RaggedTensorSpec((None, None), tf.int32, ragged_rank=1)
FIXED = tf.TensorSpec((None, 6), tf.int32)
TABLE = tf.ones((5, 4))
# Rows of at most 10 words, of 20 values in pairs, and of 30 letters.
CAPACITY = SlotCapacity(4, (10, 20, 30, 12, 6))


def per_row(places: Callable[..., Any]) -> list[int] | None:
    """Slots of each row by look-up, where a table is looked up at *places*; None if unknown."""

    def step(*batch: Any) -> Any:
        given = places(*batch)
        many = given if isinstance(given, list) else [given]
        flat = tf.concat([tf.reshape(each, [-1]) for each in many], 0)
        found.extend(look_ups(flat if len(many) > 1 else tf.reshape(many[0], [-1]), batch))
        return flat

    found: list[Any] = []
    specs = (FREE, TWO, SPELLED, RAGGED, FIXED)
    keras_hooks.graph_of(step, *specs).get_concrete_function()
    return [each.per_row(CAPACITY) for each in found] or None


@pytest.mark.parametrize(
    ("places", "slots"),
    [
        (lambda w, p, s, r, f: w, [10]),
        (lambda w, p, s, r, f: tf.where(w < 0, w + 5, w), [10]),
        (lambda w, p, s, r, f: w[:, 1:], [10]),
        (lambda w, p, s, r, f: w + p[..., 0], [10]),
        (lambda w, p, s, r, f: p, [20]),
        (lambda w, p, s, r, f: p[..., 1], [10]),
        (lambda w, p, s, r, f: tf.where(s < 0, s + 5, s), [30]),
        (lambda w, p, s, r, f: w[:, :, None] + tf.constant([1, 2, 3]), [30]),
        (lambda w, p, s, r, f: r.to_tensor(), [12]),
        (lambda w, p, s, r, f: [w, w[:, 1:], f], [10, 10, 6]),
        (lambda w, p, s, r, f: f, [6]),
        (lambda w, p, s, r, f: tf.argmax(tf.one_hot(f, 5), -1), [6]),
        (lambda w, p, s, r, f: tf.argmax(tf.reshape(tf.one_hot(f, 4), (-1, 8)), 1), [3]),
        (lambda w, p, s, r, f: tf.math.top_k(tf.one_hot(f, 5) @ tf.ones((5, 4)), 2).indices, [12]),
        (lambda w, p, s, r, f: tf.argmax(tf.tensordot(tf.one_hot(f, 5), TABLE, 1), -1), [6]),
        (lambda w, p, s, r, f: tf.concat([f, tf.gather([3, 4, 5], f[:, :2])], 1), [8]),
    ],
)
def test_sizes_of_the_batch_bound_them(places: Callable[..., Any], slots: list[int]) -> None:
    assert per_row(places) == slots


@pytest.mark.parametrize(
    "places",
    [
        lambda w, p, s, r, f: w[:, :, None] + w[:, None, :],  # pairs of words
        lambda w, p, s, r, f: w + tf.range(tf.shape(w)[1])[None],
        lambda w, p, s, r, f: w[:, : tf.shape(f)[0]],
        lambda w, p, s, r, f: s + s[:, :1],  # may be longer, where an axis has one value
        lambda w, p, s, r, f: tf.repeat(w, 2, axis=1),
        lambda w, p, s, r, f: r.to_tensor(shape=tf.stack([-1, tf.size(w)])),
        lambda w, p, s, r, f: tf.transpose(w),
        lambda w, p, s, r, f: [w, tf.repeat(w, 2, axis=1)],
        lambda w, p, s, r, f: tf.boolean_mask(w, w > 0),
        lambda w, p, s, r, f: tf.argmax(tf.reshape(f, (-1, 4)), 1),  # pieces of several rows
        lambda w, p, s, r, f: tf.concat([f, f], 0),
        lambda w, p, s, r, f: tf.reshape(f, (-1, 3))[:, 0] + tf.reshape(f, (-1, 6))[:, 0],
        lambda w, p, s, r, f: tf.gather(f, f[:, 0]),
    ],
)
def test_what_may_make_more_of_them_is_unknown(places: Callable[..., Any]) -> None:
    assert per_row(places) is None


def test_what_was_computed_eagerly_is_unknown() -> None:
    words = tf.constant([[1, 2]])
    assert look_ups(tf.reshape(words, [-1]), (words,)) == []
