"""Callbacks that touch the model: averaging weights, keeping the best, stopping, asking it questions."""

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(127)
x = np.random.uniform(-1, 1, size=(256, 5)).astype("float32")
y = np.sin(3 * x[:, :1]) + 0.5 * x[:, 1:2]


class WeightAverage(keras.callbacks.Callback):
    """The mean of the weights after each epoch from *start* on, put in at the end."""

    def __init__(self, start):
        super().__init__()
        self.start, self.count, self.mean = start, 0, None

    def on_epoch_end(self, epoch, logs=None):
        if epoch < self.start:
            return
        weights = self.model.get_weights()
        self.count += 1
        if self.mean is None:
            self.mean = weights
        self.mean = [old + (new - old) / self.count for old, new in zip(self.mean, weights)]

    def on_train_end(self, logs=None):
        self.model.set_weights(self.mean)


class StopAtMinLoss(keras.callbacks.Callback):
    def __init__(self, patience=0):
        super().__init__()
        self.patience, self.best_weights = patience, None

    def on_train_begin(self, logs=None):
        self.wait, self.stopped_epoch, self.best = 0, 0, np.inf

    def on_epoch_end(self, epoch, logs=None):
        current = logs.get("loss")
        if current < 0.9 * self.best:
            self.best, self.wait = current, 0
            self.best_weights = self.model.get_weights()
        else:
            self.wait += 1
            if self.wait >= self.patience:
                self.stopped_epoch = epoch
                self.model.stop_training = True
                self.model.set_weights(self.best_weights)

    def on_train_end(self, logs=None):
        if self.stopped_epoch > 0:
            print(f"epoch {self.stopped_epoch + 1}: stopped early")


class HalfWay(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == 3 and self.params["epochs"] == 6:
            kernel = self.model.layers[0].kernel
            kernel.assign(keras.ops.clip(kernel, -0.5, 0.5))


def make():
    model = keras.Sequential(
        [keras.Input((5,)), layers.Dense(10, activation="tanh"), layers.Dense(1)]
    )
    model.compile(keras.optimizers.SGD(0.2), "mse")
    return model


options = {"batch_size": 32, "shuffle": False, "verbose": 0}
model, averaging = make(), WeightAverage(start=2)
model.fit(x, y, epochs=5, callbacks=[averaging], **options)
print("averaged", averaging.count, "evaluated", round(model.evaluate(x, y, verbose=0), 4))
model, stopping = make(), StopAtMinLoss(patience=1)
history = model.fit(x, y, epochs=10, callbacks=[stopping], **options)
print(
    "epochs",
    len(history.epoch),
    "best",
    round(stopping.best, 4),
    "now",
    round(model.evaluate(x, y, verbose=0), 4),
)
model = make()
history = model.fit(x, y, epochs=6, callbacks=[HalfWay()], **options)
print("clipped", np.round(history.history["loss"], 4))
