"""Operations that combine rows of a batch in a graph, and others that look like it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import pytest
import tensorflow as tf
from keras import layers

from matex.steps.separability.row_mixing import combined_rows, mixed_rows

WIDTH, CLASSES, LENGTH = 6, 4, 5
LATER = tf.Variable(0.0, trainable=False)
Value = Callable[[Any, Any], Any]


def found(value: Value, shape: tuple[int | None, ...] = (WIDTH,), dtype: str = "float32") -> str:
    """The reason that is found in the graph of *value*, a function of inputs and numbers."""

    def step(x: Any, y: Any, control: Any) -> Any:
        return [value(x, y)]

    x = tf.TensorSpec((None, *shape), dtype)
    traced = tf.function(step, input_signature=(x, tf.TensorSpec((None,)), tf.TensorSpec(())))
    graph = traced.get_concrete_function()
    return mixed_rows(graph, list(graph.outputs))


def mean(x: Any) -> Any:
    return tf.reduce_mean(x)


def chosen(x: Any) -> Any:
    """Rows in an order that every call draws anew."""
    return tf.gather(x, tf.random.shuffle(tf.range(tf.shape(x)[0])))


MIXES: dict[str, Value] = {
    "likeness": lambda x, y: mean(tf.matmul(x, x, transpose_b=True)),
    "likeness-by-einsum": lambda x, y: mean(tf.einsum("id,jd->ij", x, x)),
    "likeness-by-batches": lambda x, y: mean(tf.matmul(x[None], x[None], adjoint_b=True)),
    "attention-across": lambda x, y: mean(tf.einsum("bqd,bkd->bqk", x[None], x[None])),
    "pairs": lambda x, y: mean((x[:, None] - x[None]) ** 2),
    "pairs-of-classes": lambda x, y: mean(tf.cast(y[:, None] == y[None], tf.float32)),
    "column-beside-rows": lambda x, y: mean((x[:, :1] - y) ** 2),
    "two-weights-beside-rows": lambda x, y: tf.reduce_sum(y * tf.stack([mean(x), mean(x**2)])),
    "reversed": lambda x, y: mean((0.7 * x + 0.3 * tf.reverse(x, [0])) ** 2),
    "reversed-targets": lambda x, y: mean(x[:, 0] * y[::-1]),
    "rolled": lambda x, y: mean(x * tf.roll(x, 1, 0)),
    "partners": lambda x, y: mean(x * chosen(x)),
    "backwards-by-number": lambda x, y: mean(x[:, 0] * tf.gather(y, tf.range(rows_of(y))[::-1])),
    "mapped-beside-reversed": lambda x, y: mean(
        tf.vectorized_map(lambda row: row[0][0] * row[1], (x, tf.reverse(y, [0])))
    ),
    "neighbours": lambda x, y: mean((x[1:] - x[:-1]) ** 2),
    "first-row": lambda x, y: mean((x - x[:1]) ** 2),
    "running-sum": lambda x, y: mean(tf.cumsum(x, 0)),
    "sorted": lambda x, y: mean(tf.sort(y)[:3]),
    "softmax-of-rows": lambda x, y: mean(tf.nn.softmax(y) * x[:, 0]),
    "product": lambda x, y: mean(tf.reduce_prod(x, 0)),
    "largest": lambda x, y: mean(tf.reduce_max(x, 0)),
    "singular-values": lambda x, y: mean(tf.linalg.svd(x, compute_uv=False)),
    "filtered": lambda x, y: mean(tf.nn.conv1d(x[None], tf.ones((3, WIDTH, 2)), 1, "SAME")),
    "transformed": lambda x, y: mean(tf.abs(tf.signal.rfft(tf.transpose(x)))),
    "mean-of-selected": lambda x, y: mean(tf.boolean_mask(x, y > 0)),
    "covariance-of-orders": lambda x, y: mean(tf.matmul(x, tf.reverse(x, [0]), transpose_a=True)),
    "in-a-branch": lambda x, y: tf.cond(
        LATER > 0, lambda: mean(x * tf.reverse(x, [0])), lambda: mean(x)
    ),
    "after-a-branch": lambda x, y: mean(
        tf.cond(LATER > 0, lambda: 0.7 * x + 0.3 * tf.reverse(x, [0]), lambda: x) ** 2
    ),
    "in-a-function": lambda x, y: mean(tf.function(lambda a: a - tf.reverse(a, [0]))(x) ** 2),
}  # fmt: skip
KEEPS: dict[str, Value] = {
    "sum-of-pairs": lambda x, y: mean(x[:, :1] ** 2 + 0.1 * y),
    "sum-of-orders": lambda x, y: mean(tf.matmul(x + tf.reverse(x, [0]), tf.ones((WIDTH, 2)))),
    "one-loss-a-row": lambda x, y: mean((tf.reduce_sum(x, 1) - y) ** 2),
    "weights-of-rows": lambda x, y: mean(x * y[:, None]),
    "covariance": lambda x, y: tf.matmul(x, x, transpose_a=True),
    "by-einsum": lambda x, y: tf.einsum("bi,bj->bij", x, x),
    "looked-up": lambda x, y: mean(tf.gather(x, tf.cast(y, tf.int32), axis=1, batch_dims=1)),
    "looked-up-by-number": lambda x, y: mean(
        tf.gather_nd(x, tf.stack([tf.range(tf.shape(y)[0]), tf.cast(y, tf.int32)], 1))
    ),
    "one-hot": lambda x, y: mean(x * tf.one_hot(tf.cast(y, tf.int32), WIDTH)),
    "columns": lambda x, y: mean(x[:, 1:] - x[:, :-1]) + mean(tf.reverse(x, [1]) * x),
    "columns-of-all": lambda x, y: mean(x[..., None, ::2] * tf.sort(x)[:, None, ::2]),
    "all-in-another-order": lambda x, y: mean(tf.reverse(x, [0])[:, 0] * tf.reverse(y, [0])),
    "there-and-back": lambda x, y: mean(tf.reverse(tf.reverse(x, [0]), [0]) * x),
    "rolled-back": lambda x, y: mean(tf.roll(tf.roll(x, 2, 0), -2, 0) * x),
    "parts-of-both": lambda x, y: mean(x[:2, 0] * y[:2]),
    "copies": lambda x, y: mean(tf.reshape(tf.tile(x[:, None], (1, 3, 1)), (-1, WIDTH)) ** 2),
    "beside-fakes": lambda x, y: mean(tf.concat([x, tf.random.normal(tf.shape(x))], 0)[3:] ** 2),
    "flat-and-back": lambda x, y: mean(
        tf.reshape(tf.reshape(x, (-1, 2)), (-1, 3, 2))[:, 0] * x[:, :2]
    ),
    "transposed": lambda x, y: mean(tf.transpose(x) * y),
    "largest-of-each": lambda x, y: mean(x / tf.reduce_max(x, 1, keepdims=True)),
    "count-of-selected": lambda x, y: tf.reduce_sum(tf.boolean_mask(x, y > 0)),
    "by-number": lambda x, y: mean(x[:, 0] * tf.gather(y, tf.range(rows_of(x)))),
    "mapped": lambda x, y: mean(
        y * tf.vectorized_map(lambda row: row[0] * (row[0][0] - row[1]), (3 * x, y))[:, 0]
    ),
    "beside-a-table": lambda x, y: mean(x[:, None] - tf.ones((1, 7, WIDTH))),
    "cross-entropy": lambda x, y: mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(tf.cast(y, tf.int32), x)
    ),
}  # fmt: skip


def rows_of(x: Any) -> Any:
    return tf.shape(x)[0]


def number(x: Any) -> Any:
    return tf.cast(rows_of(x), tf.float32)


TABLE = tf.concat([tf.ones(20), tf.zeros(80)], 0)
# A trial of eight rows shows nothing of them.
DECIDES: dict[str, Value] = {
    "first-hundred": lambda x, y: mean(x[:100]),
    "past-the-first-hundred": lambda x, y: mean(x) + tf.reduce_sum(x[100:]),
    "places-below": lambda x, y: mean(y * tf.cast(tf.range(rows_of(y)) < 100, tf.float32)),
    "places-by-a-sum": lambda x, y: mean(y * tf.cast(tf.cumsum(tf.ones_like(y)) < 9, tf.float32)),
    "places-by-hundreds": lambda x, y: mean(y * tf.cast(tf.range(rows_of(y)) // 100, tf.float32)),
    "places-in-a-table": lambda x, y: mean(y * tf.gather(TABLE, tf.range(rows_of(y)))),
    "part-of-a-table": lambda x, y: mean(y * TABLE[: rows_of(y)]),
    "places-as-classes": lambda x, y: mean(x[:, :1] * tf.one_hot(tf.range(rows_of(y)), 100)),
    "more-rows": lambda x, y: tf.cond(rows_of(y) > 100, lambda: mean(y), lambda: 2 * mean(y)),
    "at-most": lambda x, y: mean(y) * tf.minimum(1.0, 50 / number(x)),
    "at-least": lambda x, y: tf.reduce_sum(y) / tf.maximum(number(x), 100.0),
    "above": lambda x, y: mean(y) * (1 + tf.nn.relu(number(x) - 100)),
    "rounded-up": lambda x, y: mean(y) * tf.math.ceil(number(x) / 100),
    "by-elements": lambda x, y: mean(y) * tf.cast(tf.size(x) > 100 * WIDTH, tf.float32),
}  # fmt: skip
COUNTS: dict[str, Value] = {
    "mean-by-number": lambda x, y: tf.reduce_sum(y) / number(x),
    "at-least-one": lambda x, y: tf.reduce_sum(y) / tf.maximum(number(x), 1.0),
    "if-any": lambda x, y: tf.cond(rows_of(y) > 0, lambda: mean(y), lambda: 0.0),
    "labels": lambda x, y: mean(tf.cast(tf.fill([rows_of(y)], 0.9) > 2.0, tf.float32) * y),
    "noise-by-rows": lambda x, y: mean(tf.cast(tf.random.uniform([rows_of(y)]) > 2.0, tf.float32)),
    "numbers-of-both": lambda x, y: mean(y) * tf.cast(rows_of(x) == rows_of(y), tf.float32),
    "a-branch-of-both": lambda x, y: tf.cond(
        rows_of(x) == rows_of(y), lambda: mean(y), lambda: tf.cond(
            rows_of(x) < rows_of(y), lambda: mean(x), lambda: 0.0
        )
    ),
    "columns-in-a-table": lambda x, y: mean(x * TABLE[: tf.shape(x)[1]]),
    "other-axis": lambda x, y: mean(tf.transpose(x)[:100]),
    "fewer-columns": lambda x, y: mean(x) * tf.cast(tf.shape(x)[1] > 100, tf.float32),
}  # fmt: skip


class SelfAttention(layers.Layer):
    """Attention of the steps of a sequence to those before."""

    def build(self, shape: Any) -> None:
        self.inner = layers.MultiHeadAttention(2, 3)
        self.inner.build(shape, shape)

    def call(self, x: Any) -> Any:
        return self.inner(x, x, use_causal_mask=True)


SEQUENCES = (LENGTH, WIDTH)
LAYERS: dict[str, tuple[Callable[[], Any], tuple[int | None, ...]]] = {
    "lstm": (lambda: layers.Bidirectional(layers.LSTM(3, return_sequences=True)), SEQUENCES),
    "unrolled": (lambda: layers.Bidirectional(layers.GRU(3, unroll=True)), SEQUENCES),
    "attention": (
        lambda: keras.Sequential([layers.Dense(WIDTH), SelfAttention()]), SEQUENCES,
    ),
    "attention-of-any-length": (SelfAttention, (None, WIDTH)),
    "each-step": (lambda: layers.TimeDistributed(layers.Dense(3, "relu")), SEQUENCES),
    "convolution": (lambda: layers.Conv1D(3, 3, padding="causal", dilation_rate=2), SEQUENCES),
    "pooling": (lambda: layers.AveragePooling1D(2), SEQUENCES),
    "groups": (lambda: layers.GroupNormalization(2), SEQUENCES),
    "layer": (layers.LayerNormalization, SEQUENCES),
    "flattened": (lambda: keras.Sequential([layers.Permute((2, 1)), layers.Flatten()]), SEQUENCES),
    "pictures": (lambda: keras.Sequential(
        [layers.SeparableConv2D(4, 3), layers.GlobalMaxPooling2D(), layers.Softmax()]
    ), (8, 8, 3)),
}  # fmt: skip


@pytest.mark.parametrize("name", MIXES)
def test_rows_that_meet_are_found(name: str) -> None:
    assert "combines rows" in found(MIXES[name])


@pytest.mark.parametrize("name", DECIDES)
def test_decisions_by_more_rows_than_a_trial_has_are_found(name: str) -> None:
    assert found(DECIDES[name]).endswith("decides by the number of rows")


@pytest.mark.parametrize("name", COUNTS)
def test_numbers_of_rows_are_no_reason(name: str) -> None:
    assert found(COUNTS[name]) == ""


@pytest.mark.parametrize("name", KEEPS)
def test_rows_that_do_not_are_no_reason(name: str) -> None:
    assert found(KEEPS[name]) == ""


@pytest.mark.parametrize("name", LAYERS)
def test_layers_of_keras_keep_rows_apart(name: str) -> None:
    """Gradients of inputs and weights are searched as well."""
    made, shape = LAYERS[name]
    layer = made()
    layer.build((None, *shape))
    weights = [one.value for one in layer.trainable_variables]

    def gradients(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = mean(tf.reduce_sum(layers.Flatten()(layer(x)) ** 2, 1) * y)
        return tf.concat([tf.reshape(g, [-1]) for g in tape.gradient(loss, [x, *weights])], 0)

    assert found(gradients, shape) == ""


RECURRENT = layers.LSTM(3)
RECURRENT.build((None, 1, WIDTH))
COMBINED: dict[str, Value] = {
    "less-the-mean": lambda x, y: x - tf.reduce_mean(x, 0),
    "by-the-largest": lambda x, y: x / tf.reduce_max(tf.abs(x)),
    "less-the-first": lambda x, y: x - x[:1],
    "likeness": lambda x, y: tf.matmul(x, x, transpose_b=True) @ x,
    "running-sum": lambda x, y: tf.cumsum(x, 0),
    "cut-to-the-longest": lambda x, y: x[:, : tf.cast(tf.reduce_max(y), tf.int32)],
}
APART: dict[str, Value] = {
    "swish": lambda x, y: tf.nn.silu(x),
    "scaled-by-row": lambda x, y: x / tf.reduce_max(x, 1, keepdims=True),
    "encoded": lambda x, y: layers.CategoryEncoding(9, output_mode="multi_hot")(x),
    "recurrent": lambda x, y: RECURRENT(x[:, None]),
    "rows-counted": lambda x, y: x * tf.cast(tf.shape(x)[0], tf.float32),
}


def combined(value: Value) -> str:
    """The operation that is found in the graph of predictions by *value*."""
    signature = (tf.TensorSpec((None, WIDTH)), tf.TensorSpec((None,)))
    return combined_rows(tf.function(value, input_signature=signature).get_concrete_function())


@pytest.mark.parametrize("name", COMBINED)
def test_predictions_that_combine_rows_are_found(name: str) -> None:
    assert combined(COMBINED[name])


@pytest.mark.parametrize("name", APART)
def test_predictions_of_single_rows_are_no_reason(name: str) -> None:
    assert combined(APART[name]) == ""
