"""Raise the learning rate batch by batch, pick one, put the weights back and train for real."""

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(113)
x = np.random.normal(size=(320, 6)).astype("float32")
y = (x**2 @ np.array([[1.0], [0.5], [0.0], [0.2], [0.0], [1.0]])).astype("float32")


class RangeTest(keras.callbacks.Callback):
    def __init__(self, low, high, steps):
        super().__init__()
        self.rates = np.geomspace(low, high, steps)
        self.losses = []

    def on_train_begin(self, logs=None):
        self.saved = self.model.get_weights()
        self.rate_before = float(self.model.optimizer.learning_rate)

    def on_train_batch_begin(self, batch, logs=None):
        self.model.optimizer.learning_rate = self.rates[min(len(self.losses), len(self.rates) - 1)]

    def on_train_batch_end(self, batch, logs=None):
        self.losses.append(float(logs["loss"]))
        if len(self.losses) >= len(self.rates):
            self.model.stop_training = True

    def on_train_end(self, logs=None):
        self.model.set_weights(self.saved)
        self.model.optimizer.learning_rate = self.rate_before

    def best(self):
        return float(self.rates[int(np.argmin(np.gradient(np.array(self.losses))))])


model = keras.Sequential([keras.Input((6,)), layers.Dense(16, activation="relu"), layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.001), "mse")
before = model.get_weights()
search = RangeTest(1e-4, 0.02, steps=24)
model.fit(x, y, batch_size=16, epochs=2, shuffle=False, callbacks=[search], verbose=0)
print(
    "batches",
    len(search.losses),
    "first and last loss",
    round(search.losses[0], 2),
    round(search.losses[-1], 2),
)
print("as before:", all(np.array_equal(a, b) for a, b in zip(before, model.get_weights())))
print(f"rate as before {float(model.optimizer.learning_rate):.4f}, chosen {search.best():.5f}")

model.optimizer.learning_rate = search.best()
history = model.fit(x, y, batch_size=16, epochs=2, shuffle=False, verbose=0)
print("losses", np.round(history.history["loss"], 2))
