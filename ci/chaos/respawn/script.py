"""A script that knows nothing of matex: it trains until a file says that it is enough.

    python script.py STOP TOLD [--layers dropout|noise|lstm] [--epochs E] [--rest-ms MS]

First it trains another model, for two epochs, and afterwards again, in all the ways that Keras has.
In the end it writes the losses of each epoch, and the first model's numbers, to TOLD.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

STEPS = 12  # of an epoch
BATCH = 48


class UntilEnough(keras.callbacks.Callback):  # type: ignore[misc]
    """Ends training after the epoch in which the file is there."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def on_epoch_end(self, epoch: int, logs: object = None) -> None:
        if self._path.exists():
            self.model.stop_training = True


def model(kind: str) -> keras.Model:
    inputs = keras.Input((12,))
    hidden = keras.layers.Dense(16, activation="relu")(inputs)
    if kind == "lstm":
        hidden = keras.layers.LSTM(8)(keras.layers.Reshape((4, 4))(hidden))
    elif kind == "noise":
        hidden = keras.layers.GaussianNoise(0.1)(hidden)
    else:
        hidden = keras.layers.Dropout(0.2)(hidden)
    return keras.Model(inputs, keras.layers.Dense(1)(hidden))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("stop", type=Path)
    parser.add_argument("told", type=Path)
    parser.add_argument("--epochs", type=int, default=100_000)
    parser.add_argument("--layers", default="dropout")
    parser.add_argument("--rest-ms", type=float, default=5.0, help="between two steps")
    given = parser.parse_args()
    keras.utils.set_random_seed(7)
    draw = np.random.default_rng(3)
    x = draw.normal(size=(STEPS * BATCH, 12)).astype("float32")
    y = np.tanh(x[:, :1]) + 0.1 * x[:, 1:2]
    first = model("dropout")
    first.compile("sgd", "mse")
    first.fit(x, y, batch_size=BATCH, epochs=2, verbose=0)
    trained = model(given.layers)
    trained.compile(keras.optimizers.Adam(1e-3), "mse")
    history = trained.fit(
        x, y, batch_size=BATCH, epochs=given.epochs, verbose=0,
        callbacks=[UntilEnough(given.stop), Resting(given.rest_ms)],
    )  # fmt: skip
    losses = history.history["loss"]
    told = {"losses": losses, "first": first.evaluate(x, y, verbose=0), "after": after(first, x, y)}
    given.told.write_text(json.dumps(told))


def after(trained: keras.Model, x: np.ndarray, y: np.ndarray) -> list[float]:
    """Numbers of *trained* by all that can follow a fit; a rank that came late shares in it."""
    batches = tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH)
    again = trained.fit(x, y, batch_size=BATCH, epochs=2, shuffle=False, verbose=0)
    numbers = [float(np.square(trained.predict(x, verbose=0)).sum())]
    numbers += [*again.history["loss"], trained.evaluate(batches, verbose=0)]
    numbers += [float(trained.train_on_batch(x[:BATCH], y[:BATCH])) for _ in range(2)]
    numbers += [float(trained.test_on_batch(x, y)), float(trained.predict_on_batch(x).sum())]
    optimizer = keras.optimizers.SGD(0.01)

    @tf.function  # type: ignore[untyped-decorator]
    def step(rows: tf.Tensor, wanted: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(trained(rows) - wanted))
        variables = trained.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    return numbers + [float(step(rows, wanted)) for rows, wanted in batches]


class Resting(keras.callbacks.Callback):  # type: ignore[misc]
    """Computes nothing between two steps, so that ranks leave the cores to each other."""

    def __init__(self, rest_ms: float) -> None:
        super().__init__()
        self._rest_s = rest_ms / 1e3

    def on_train_batch_end(self, batch: int, logs: object = None) -> None:
        time.sleep(self._rest_s)


if __name__ == "__main__":
    main()
