"""The script that the full layer of chaos.py runs: small trainings, one after the other.

    chaos_train.py [--end-all-at TRAINING,BATCH] MODEL,OPTIMIZER,VALIDATE ...

Each is one call of ``fit`` on a model of its own, from the same seed. With --end-all-at every
rank that works dies after that batch of that training's second epoch.
"""

import argparse
import os
import signal

import keras
import numpy as np

SAMPLES, BATCH, EPOCHS = 1000, 128, 2
layers = keras.layers


class EndAll(keras.callbacks.Callback):
    on_every_rank = True

    def __init__(self, batch):
        super().__init__()
        self.batch = batch
        self.epoch = 0

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        if (self.epoch, batch) == (1, self.batch):
            os.kill(os.getpid(), signal.SIGKILL)


class CustomStep(keras.Model):
    def train_step(self, data):
        import tensorflow as tf

        x, y = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(x=x, y=y, y_pred=self(x, training=True))
        variables = self.trainable_variables
        self.optimizer.apply_gradients(
            zip(tape.gradient(loss, variables), variables, strict=True)
        )
        return {"loss": loss}


def made_model(kind):
    if kind == "embedding":
        tokens = keras.Input((12,), dtype="int32")
        found = layers.GlobalAveragePooling1D()(layers.Embedding(20, 8)(tokens))
        return keras.Model(tokens, layers.Dense(1, "sigmoid")(found))
    if kind == "two-inputs":
        a, b = keras.Input((6,), name="a"), keras.Input((6,), name="b")
        hidden = layers.Dense(24, "relu")(layers.Concatenate()([a, b]))
        return keras.Model({"a": a, "b": b}, layers.Dense(1, "sigmoid")(hidden))
    penalty = keras.regularizers.L2(0.01) if kind == "regularized" else None
    inputs = keras.Input((12,))
    hidden = inputs
    for _ in range(2):
        hidden = layers.Dense(24, "relu", kernel_regularizer=penalty)(hidden)
    made = CustomStep if kind == "custom" else keras.Model
    return made(inputs, layers.Dense(1, "sigmoid")(hidden))


def train(kind, optimizer, validate, callbacks):
    keras.backend.clear_session()
    keras.utils.set_random_seed(11)
    x = np.random.default_rng(3).normal(size=(SAMPLES, 12)).astype("float32")
    y = (x[:, 0] * x[:, 1] + 0.3 * x[:, 2] > 0).astype("float32")
    more = {"sample_weight": 1 + y} if kind == "weighted" else {}
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
        keras.optimizers.get(
            {"class_name": optimizer, "config": {"clipnorm": 0.5 if kind == "clipped" else None}}
        ),
        "binary_crossentropy",
        metrics=["accuracy"],
        weighted_metrics=[],
    )
    model.fit(x, y, epochs=EPOCHS, batch_size=BATCH, verbose=0, callbacks=callbacks, **more)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--end-all-at")
    parser.add_argument("trainings", nargs="+")
    arguments = parser.parse_args()
    last, batch = map(int, (arguments.end_all_at or "-1,-1").split(","))
    for number, training in enumerate(arguments.trainings):
        callbacks = [EndAll(batch)] if number == last else []
        train(*training.split(","), callbacks)


main()
