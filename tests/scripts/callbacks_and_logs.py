"""Callbacks of all sorts, and what they and their files hold afterwards."""

import csv
import os

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(2)
x = np.random.normal(size=(256, 6)).astype("float32")
y = (x @ np.array([1.0, -2.0, 0.5, 0.0, 1.5, -1.0]) + 0.3)[:, None].astype("float32")


class LossHistory(keras.callbacks.Callback):
    def on_train_begin(self, logs=None):
        self.batch_losses = []
        self.epoch_rates = []

    def on_train_batch_end(self, batch, logs=None):
        self.batch_losses.append(logs["loss"])

    def on_epoch_end(self, epoch, logs=None):
        self.epoch_rates.append(float(self.model.optimizer.learning_rate))


class HeldOut(keras.callbacks.Callback):
    """Evaluates and predicts by itself after each epoch."""

    def __init__(self, inputs, targets):
        super().__init__()
        self.inputs, self.targets, self.seen = inputs, targets, []

    def on_epoch_end(self, epoch, logs=None):
        loss = self.model.evaluate(self.inputs, self.targets, verbose=0)
        guess = self.model.predict(self.inputs[:2], verbose=0)
        self.seen.append((epoch, round(float(loss), 3), guess.shape))


def schedule(epoch, rate):
    return rate if epoch < 2 else rate * 0.5


losses, held_out, ended = LossHistory(), HeldOut(x[200:], y[200:]), []
model = keras.Sequential([keras.Input((6,)), layers.Dense(8, activation="relu"), layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.05), "mse")
history = model.fit(
    x[:200],
    y[:200],
    batch_size=25,
    epochs=5,
    shuffle=False,
    validation_data=(x[200:], y[200:]),
    verbose=0,
    callbacks=[
        losses,
        held_out,
        keras.callbacks.LearningRateScheduler(schedule),
        keras.callbacks.CSVLogger("log.csv"),
        keras.callbacks.TensorBoard("board", histogram_freq=0),
        keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: ended.append(epoch)),
        keras.callbacks.ModelCheckpoint("best-{epoch:02d}.keras", save_best_only=True),
        keras.callbacks.TerminateOnNaN(),
    ],
)
print("batches seen", len(losses.batch_losses), "last", round(float(losses.batch_losses[-1]), 3))
print("rates", np.round(losses.epoch_rates, 5))
print("held out", held_out.seen)
print("ended", ended)
with open("log.csv", newline="") as file:
    rows = list(csv.DictReader(file))
print("csv", list(rows[0]), [round(float(row["loss"]), 3) for row in rows])
print("history", {key: np.round(values, 3).tolist() for key, values in history.history.items()})
saved = sorted(name for name in os.listdir() if name.endswith(".keras"))
print("saved", saved, "logs in", sorted(os.listdir("board")))
best = keras.models.load_model(saved[-1])
print("best again", round(best.evaluate(x[200:], y[200:], verbose=0), 3))
