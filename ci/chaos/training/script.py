"""The script that the full layer runs: small trainings, one after the other.

    script.py [--end-all-at TRAINING,BATCH] MODEL,OPTIMIZER,VALIDATE ...

Each is one call of ``fit`` on a model of its own, from the same seed. With --end-all-at every
rank that works dies after that batch of that training's second epoch.
"""

from __future__ import annotations

import argparse
import os
import signal
import zlib
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

SAMPLES, BATCH, EPOCHS = 1000, 128, 2
layers = keras.layers


class EndAll(keras.callbacks.Callback):  # type: ignore[misc]
    def __init__(self, batch: int) -> None:
        super().__init__()
        self.batch = batch
        self.epoch = 0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.epoch = epoch

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if (self.epoch, batch) == (1, self.batch):
            os.kill(os.getpid(), signal.SIGKILL)


class Compared(keras.callbacks.Callback):  # type: ignore[misc]
    """Adds a checksum of weights and optimizer to the logs of an epoch."""

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        sum_of_all = 0
        for variable in (*self.model.weights, *self.model.optimizer.variables):
            sum_of_all = zlib.crc32(np.asarray(variable).tobytes(), sum_of_all)
        logs["replica"] = float(sum_of_all)


def made_optimizer(name: str, **options: Any) -> keras.optimizers.Optimizer:
    if name == "nesterov":
        return keras.optimizers.SGD(0.01, momentum=0.9, nesterov=True, **options)
    return keras.optimizers.get({"class_name": name, "config": options})


class CustomStep(keras.Model):  # type: ignore[misc]
    def train_step(self, data: Any) -> dict[str, Any]:
        x, y = data
        with tf.GradientTape() as tape:
            found = self(x, training=True)
            loss = self.compute_loss(x=x, y=y, y_pred=found)
        variables = self.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        for metric in self.metrics:
            if metric.name == "loss":
                metric.update_state(loss, sample_weight=tf.shape(y)[0])
            else:
                metric.update_state(y, found)
        return dict(self.get_metrics_result())


_WITH_NOISE: dict[str, Callable[[], list[Any]]] = {
    "dropout": lambda: [
        layers.Dense(24, "relu"),
        layers.Dropout(0.3),
        layers.Dense(24, "relu"),
        layers.GaussianNoise(0.1),
    ],
    "images": lambda: [
        layers.Reshape((4, 3, 1)),
        layers.RandomFlip(),
        layers.Conv2D(8, 2),
        layers.BatchNormalization(),
        layers.ReLU(),
        layers.Flatten(),
    ],
    "lstm": lambda: [layers.Reshape((6, 2)), layers.LSTM(8, dropout=0.2)],
}


def made_model(kind: str) -> keras.Model:
    if kind == "embedding":
        tokens = keras.Input((12,), dtype="int32")
        found = layers.GlobalAveragePooling1D()(layers.Embedding(20, 8)(tokens))
        return keras.Model(tokens, layers.Dense(1, "sigmoid")(found))
    if kind == "two-inputs":
        a, b = keras.Input((6,), name="a"), keras.Input((6,), name="b")
        hidden = layers.Dense(24, "relu")(layers.Concatenate()([a, b]))
        return keras.Model({"a": a, "b": b}, layers.Dense(1, "sigmoid")(hidden))
    if kind in _WITH_NOISE:
        return keras.Sequential(
            [keras.Input((12,)), *_WITH_NOISE[kind](), layers.Dense(1, "sigmoid")]
        )
    penalty = keras.regularizers.L2(0.01) if kind == "regularized" else None
    inputs = keras.Input((12,))
    hidden = inputs
    for _ in range(2):  # messages of a wide one wait for their receivers
        width = 300 if kind == "wide" else 24
        hidden = layers.Dense(width, "relu", kernel_regularizer=penalty)(hidden)
    made = CustomStep if kind == "custom" else keras.Model
    return made(inputs, layers.Dense(1, "sigmoid")(hidden))


def train(training: str, callbacks: list[keras.callbacks.Callback]) -> None:
    kind, optimizer, validate = training.split(",")
    keras.backend.clear_session()
    keras.utils.set_random_seed(11)
    x: Any = np.random.default_rng(3).normal(size=(SAMPLES, 12)).astype("float32")
    y = (x[:, 0] * x[:, 1] + 0.3 * x[:, 2] > 0).astype("float32")
    more: dict[str, Any] = {"sample_weight": 1 + y} if kind == "weighted" else {}
    held_out = x[:700]
    if kind == "embedding":
        x = (10 + 3 * x).clip(0, 19).astype("int32")
        held_out = x[:700]
    if kind == "two-inputs":
        x, held_out = ({"a": rows[:, :6], "b": rows[:, 6:]} for rows in (x, held_out))
    if validate == "yes":
        more["validation_data"] = (held_out, y[:700])
    model = made_model(kind)
    model.compile(
        made_optimizer(optimizer, clipnorm=0.5 if kind == "clipped" else None),
        "binary_crossentropy",
        metrics=["accuracy"],
        weighted_metrics=[],
    )
    model.fit(x, y, epochs=EPOCHS, batch_size=BATCH, verbose=0, callbacks=callbacks, **more)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--end-all-at")
    parser.add_argument("trainings", nargs="+")
    arguments = parser.parse_args()
    last, batch = map(int, (arguments.end_all_at or "-1,-1").split(","))
    for number, training in enumerate(arguments.trainings):
        train(training, [Compared(), *([EndAll(batch)] if number == last else [])])


main()
