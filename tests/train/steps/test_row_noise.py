"""Rows of noise: those that a rank draws alone are, to the last bit, those of the whole batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from matex import keras_hooks
from matex.errors import NotShareable
from matex.steps.separability.row_layout import neighbours

ROWS = 13
SPANS = [[(0, 13)], [(0, 4)], [(4, 9)], [(9, 10)], [(2, 5), (8, 13)], [(3, 3)]]
SHAPE = (6, 4, 3)


def steps_of_rows(seed: Any) -> dict[str, Callable[[Any], Any]]:
    """Functions that draw a number for each row by Keras's own generator *seed*."""

    def shaped(name: str, *args: Any, **kwargs: Any) -> Callable[[Any], Any]:
        draw = getattr(keras.random, name)
        return lambda x: draw((tf.shape(x)[0], 5), *args, **kwargs, seed=seed)

    return {
        "normal": shaped("normal", mean=1.0, stddev=2.0),
        "uniform": shaped("uniform", -1.0, 3.0),
        "float64": shaped("uniform", dtype="float64"),
        "half": shaped("normal", dtype="float16"),
        "truncated": shaped("truncated_normal"),
        "truncated-float64": shaped("truncated_normal", dtype="float64"),
        "integers": shaped("randint", 0, 100),
        "long-integers": shaped("randint", 0, 100, dtype="int64"),
        "gamma": shaped("gamma", 2.0),
        "beta": shaped("beta", 2.0, 3.0),
        "binomial": shaped("binomial", 9.0, 0.3),
        "fixed-seed": lambda x: keras.random.normal((tf.shape(x)[0], 5), seed=3),
        "vector": lambda x: keras.random.uniform((tf.shape(x)[0],), seed=seed),
        "behind-another-axis": lambda x: tf.transpose(
            keras.random.normal((6, tf.shape(x)[0], 4), seed=seed), (1, 0, 2)
        ),
        "as-last-axis": lambda x: tf.transpose(
            keras.random.truncated_normal((6, tf.shape(x)[0]), seed=seed)
        ),
        "of-another-size": lambda x: tf.repeat(
            tf.reduce_sum(keras.random.uniform((6, 0 * tf.shape(x)[0] + 20), seed=seed)),
            tf.shape(x)[0],
        ),
        "after-another": lambda x: (
            keras.random.uniform((3,), seed=seed)[0] + keras.random.uniform(tf.shape(x), seed=seed)
        ),
        "in-a-loop": lambda x: tf.while_loop(
            lambda i, _: i < 3,
            lambda i, y: (i + 1, y + keras.random.normal(tf.shape(x), seed=seed)),
            (0, x),
        )[1],
    }


LAYERS: dict[str, Callable[[], Any]] = {
    "dropout": lambda: layers.Dropout(0.4, seed=1),
    "dropout-of-places": lambda: layers.Dropout(0.4, noise_shape=(None, 1, 4, 1), seed=1),
    "dropout-of-all-rows": lambda: layers.Dropout(0.4, noise_shape=(1, 6, 4, 3), seed=1),
    "spatial-dropout": lambda: layers.SpatialDropout2D(0.4, seed=1),
    "alpha-dropout": lambda: layers.AlphaDropout(0.4, seed=1),
    "gaussian-dropout": lambda: layers.GaussianDropout(0.4, seed=1),
    "gaussian-noise": lambda: layers.GaussianNoise(0.4, seed=1),
    "flip": lambda: layers.RandomFlip(seed=1),
    "rotation": lambda: layers.RandomRotation(0.3, seed=1),
    "translation": lambda: layers.RandomTranslation(0.3, 0.2, seed=1),
    "zoom": lambda: layers.RandomZoom(0.3, seed=1),
    "contrast": lambda: layers.RandomContrast(0.3, seed=1),
    "brightness": lambda: layers.RandomBrightness(0.3, seed=1),
    "crop": lambda: layers.RandomCrop(4, 3, seed=1),
    "shear": lambda: layers.RandomShear(0.3, 0.2, seed=1),
    "hue": lambda: layers.RandomHue(0.3, value_range=(0, 1), seed=1),
    "erasing": lambda: layers.RandomErasing(seed=1, value_range=(0, 1)),
}


def steps_of_pieces(seed: Any) -> dict[str, Callable[[Any], Any]]:
    """Functions that draw numbers for several rows of each sample."""

    attention = layers.MultiHeadAttention(2, 3, kernel_initializer="ones")
    attention.build((None, 4, 3), (None, 4, 3))
    outputs = layers.Dense(5, kernel_initializer="ones")
    outputs.build((None, *SHAPE))

    def noisy(x: Any) -> Any:
        return x + keras.random.normal(tf.shape(x), seed=seed)

    def windows(x: Any) -> Any:
        parts = tf.transpose(tf.reshape(x, (-1, 3, 2, 2, 2, 3)), (0, 1, 3, 2, 4, 5))
        scores = attention(*[noisy(tf.reshape(parts, (-1, 4, 3)))] * 2, return_attention_scores=1)
        return tf.reshape(noisy(scores[1]), (-1, 6, 2, 4, 4))

    def times_first(x: Any) -> Any:
        first = tf.reshape(tf.transpose(x, (1, 0, 2, 3)), (-1, 4, 3))
        return tf.transpose(tf.reshape(noisy(first), (6, -1, 4, 3)), (1, 0, 2, 3))

    def dense(x: Any) -> Any:
        return noisy(outputs(x)[..., None])

    def blocks(x: Any) -> Any:
        return tf.stack(tf.split(noisy(x), 3), 1)

    return {
        "pieces": lambda x: tf.reshape(noisy(tf.reshape(x, (-1, 4, 3))), (-1, 6, 4, 3)),
        "small": lambda x: tf.reshape(noisy(tf.nn.relu(tf.reshape(x, (-1, 3)))), (-1, 72)),
        "back-together": lambda x: noisy(tf.reshape(tf.reshape(x, (-1, 12)) * 2, (-1, 6, 12))),
        "windows": windows,
        "repeat": lambda x: tf.reshape(noisy(tf.repeat(x, 3, 0)), (-1, 3, 72)),
        "behind-a-layer": dense,
        "times-first": times_first,
        "concat": lambda x: blocks(tf.concat([x, x, x], 0)),
        "tile": lambda x: blocks(tf.tile(x, (3, 1, 1, 1))),
        "stack": lambda x: blocks(tf.reshape(tf.stack([x, 2 * x, x]), (-1, 6, 4, 3))),
    }  # fmt: skip


@pytest.fixture(scope="module")
def x() -> np.ndarray:
    return np.random.default_rng(0).uniform(size=(ROWS, *SHAPE)).astype("float32")


@pytest.mark.parametrize("name", steps_of_rows(None))
def test_a_draw_by_rows(name: str, x: np.ndarray) -> None:
    seed = keras.random.SeedGenerator(7)
    # Where Python draws, rows are told by the first axis alone.
    eagerly = name not in ("behind-another-axis", "as-last-axis")
    check(steps_of_rows(seed)[name], seed.state.value, x, eagerly=eagerly)


@pytest.mark.parametrize("name", steps_of_pieces(None))
def test_a_draw_by_several_rows_of_a_sample(name: str, x: np.ndarray) -> None:
    seed = keras.random.SeedGenerator(7)
    eagerly = name in ("back-together", "behind-a-layer")
    check(steps_of_pieces(seed)[name], seed.state.value, x, eagerly=eagerly)


def test_rows_that_may_be_anybodys_are_refused() -> None:
    def step(x: Any) -> Any:
        rows = keras_hooks.NoiseRows(
            tf.shape(x)[0], ROWS, lambda: tf.range(ROWS), 0, True, neighbours=neighbours
        )
        with keras_hooks.rows_of_noise(rows, [], []):
            return keras.random.normal((tf.shape(x)[0] * 3, 2), seed=1)

    def pieces(x: Any) -> Any:
        rows = keras_hooks.NoiseRows(
            tf.shape(x)[0], ROWS, lambda: tf.range(ROWS), 0, True, neighbours=neighbours
        )
        with keras_hooks.rows_of_noise(rows, [], []):
            return keras.random.normal(tf.shape(tf.reshape(x, (-1, 2))), seed=1)

    with pytest.raises(NotShareable, match="does not follow from their shape"):
        tf.function(step, autograph=False).get_concrete_function(tf.TensorSpec((None, 2)))
    with pytest.raises(NotShareable, match="depends on the batch"):
        tf.function(pieces, autograph=False).get_concrete_function(tf.TensorSpec((None, None, 2)))


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_by_rows(name: str, x: np.ndarray) -> None:
    layer = LAYERS[name]()
    layer.build((None, *SHAPE))
    (seed,) = [
        one.state.value for inner in layer._flatten_layers() for one in inner._seed_generators
    ]
    check(lambda x: layer(x, training=True), seed, x)


def check(step: Callable[[Any], Any], seed: Any, x: np.ndarray, *, eagerly: bool = True) -> None:
    before = seed.numpy()

    def run(x: Any, spans: Any, axes: list[keras_hooks.RowAxis | None]) -> Any:
        rows = keras_hooks.NoiseRows(
            own=tf.shape(x)[0],
            whole=ROWS,
            indices=lambda: tf.ragged.range(spans[:, 0], spans[:, 1]).values,
            offset=spans[0, 0],
            is_one_span=tf.shape(spans)[0] == 1,
            neighbours=neighbours,
        )
        with keras_hooks.rows_of_noise(rows, [seed], axes, strict=True):
            return step(x)

    spec = tf.TensorSpec((None, *SHAPE)), tf.TensorSpec((None, 2), tf.int32)
    expected = tf.function(step, autograph=False)(x).numpy()
    after = seed.numpy()
    axes: list[keras_hooks.RowAxis | None] = []
    traced = tf.function(lambda *given: run(*given, axes), spec, autograph=False)
    traced.get_concrete_function()
    for spans in SPANS:
        own = np.concatenate([x[lo:hi] for lo, hi in spans])
        kept = np.concatenate([expected[lo:hi] for lo, hi in spans])
        sized = tf.function(lambda *given: run(*given, list(axes)), autograph=False)
        in_python = [lambda *given: run(*given, list(axes))] if eagerly else []
        for function in (traced, sized, *in_python):
            seed.assign(before)
            assert np.array_equal(function(tf.constant(own), tf.constant(spans, tf.int32)), kept)
            assert np.array_equal(seed.numpy(), after)
