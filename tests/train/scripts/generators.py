"""A Keras script for the tests: its generators are slower on some ranks, and read several times."""

import os
import time

import keras
import numpy as np

SLOWNESS_S = 0.03 * int(os.environ.get("OMPI_COMM_WORLD_RANK", "0"))

keras.utils.set_random_seed(1)
x = np.random.default_rng(0).normal(size=(200, 9)).astype("float32")
y = x[:, :1]


def endless(a, b, size):
    place = 0
    while True:
        time.sleep(SLOWNESS_S)
        yield a[place : place + size], b[place : place + size]
        place = (place + size) % len(a)


model = keras.Sequential([keras.Input((9,)), keras.layers.Dense(4), keras.layers.Dense(1)])
model.compile("sgd", "mse")
history = model.fit(
    endless(x[:160], y[:160], 16),
    steps_per_epoch=4,
    epochs=3,
    verbose=0,
    validation_data=endless(x[160:], y[160:], 10),
    validation_steps=3,
).history
print("trained", np.round(history["loss"], 4), np.round(history["val_loss"], 4))
again = endless(x, y, 10)
losses = [model.evaluate(again, steps=3, verbose=0) for _ in range(2)]
print("evaluated", np.round(losses, 4))
print("predicted", np.round(model.predict(again, steps=3, verbose=0).sum(), 3))
history = model.fit(again, steps_per_epoch=3, verbose=0).history
print("again", np.round(history["loss"], 4))
