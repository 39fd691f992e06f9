"""PyDatasets that prepare batches in threads, mix or disturb their rows; and generators."""

import math

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(137)
x = np.random.normal(size=(210, 9)).astype("float32")
y = (x.sum(axis=1, keepdims=True) > 0).astype("float32")


class Rows(keras.utils.PyDataset):
    def __init__(self, x, y, batch_size, mix=False, **kwargs):
        super().__init__(**kwargs)
        self.x, self.y, self.batch_size, self.mix = x, y, batch_size, mix
        self.order = np.arange(len(x))
        self.ends = 0

    def __len__(self):
        return math.ceil(len(self.x) / self.batch_size)

    def __getitem__(self, index):
        rows = self.order[index * self.batch_size : (index + 1) * self.batch_size]
        return self.x[rows], self.y[rows], np.full(len(rows), 0.5, "float32")

    def on_epoch_end(self):
        self.ends += 1
        if self.mix:
            self.order = np.random.default_rng(self.ends).permutation(len(self.x))


def make():
    model = keras.Sequential(
        [
            keras.Input((9,)),
            layers.Dense(8, activation="relu"),
            layers.Dense(1, activation="sigmoid"),
        ]
    )
    model.compile(keras.optimizers.SGD(0.2), "binary_crossentropy", metrics=["accuracy"])
    return model


model = make()
rows = Rows(x[:160], y[:160], 25, workers=2, max_queue_size=4)
held_out = Rows(x[160:], y[160:], 20)
history = model.fit(rows, epochs=3, shuffle=False, validation_data=held_out, verbose=0)
print(
    "loss",
    np.round(history.history["loss"], 4),
    "held out",
    np.round(history.history["val_accuracy"], 3),
)
print("predicted", model.predict(held_out, verbose=0).shape)

model = make()
rows = Rows(x[:160], y[:160], 40, mix=True)
history = model.fit(rows, epochs=3, shuffle=False, verbose=0)
print("mixed", np.round(history.history["loss"], 4))


class Noisy(Rows):
    """Rows with noise from NumPy's own generator, as pictures that are turned at random have it."""

    def __getitem__(self, index):
        x, y, weights = super().__getitem__(index)
        return x + np.random.normal(scale=2.0, size=x.shape), y, weights


model = make()
noisy, held_out_noisy = Noisy(x[:160], y[:160], 40), Noisy(x[160:], y[160:], 25)
history = model.fit(noisy, epochs=3, validation_data=held_out_noisy, verbose=0)
print("noisy", np.round(history.history["loss"], 4), np.round(history.history["val_loss"], 4))
print("next", np.random.randint(1000))


def forever(x, y, batch):
    place = 0
    while True:
        yield x[place : place + batch], y[place : place + batch]
        place = (place + batch) % (len(x) - len(x) % batch)


def once(x, y, batch):
    for place in range(0, len(x), batch):
        yield x[place : place + batch], y[place : place + batch]


model = make()
history = model.fit(
    forever(x[:160], y[:160], 16),
    steps_per_epoch=10,
    epochs=3,
    verbose=0,
    validation_data=held_out,
)
print("generator", np.round(history.history["loss"], 4), np.round(history.history["val_loss"], 4))
history = model.fit(once(x, y, 32), verbose=0)
print("one that ends", np.round(history.history["loss"], 4))
print("evaluated", np.round(model.evaluate(once(x, y, 50), verbose=0), 4))
