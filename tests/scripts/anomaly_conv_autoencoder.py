"""Find the odd hours in a series: a Conv1D autoencoder and a threshold on its error."""

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(83)
rng = np.random.default_rng(83)
STEPS = 16


def series(length, odd=()):
    time = np.arange(length)
    values = np.sin(time * 2 * np.pi / STEPS) + rng.normal(0, 0.05, length)
    for start in odd:
        values[start : start + 4] += 1.5
    return values


def windows(values):
    return np.stack([values[i : i + STEPS] for i in range(len(values) - STEPS + 1)])[
        ..., None
    ].astype("float32")


train, test = series(400), series(200, odd=(60, 140))
mean, std = train.mean(), train.std()
x_train, x_test = windows((train - mean) / std), windows((test - mean) / std)
print("windows", x_train.shape, x_test.shape)

model = keras.Sequential(
    [
        keras.Input((STEPS, 1)),
        layers.Conv1D(12, 5, padding="same", strides=2, activation="relu"),
        layers.Dropout(0.1),
        layers.Conv1D(6, 5, padding="same", strides=2, activation="relu"),
        layers.Conv1DTranspose(6, 5, padding="same", strides=2, activation="relu"),
        layers.Conv1DTranspose(12, 5, padding="same", strides=2, activation="relu"),
        layers.Conv1DTranspose(1, 5, padding="same"),
    ]
)
model.compile(optimizer=keras.optimizers.Adam(0.01), loss="mse")
history = model.fit(
    x_train,
    x_train,
    epochs=10,
    batch_size=32,
    validation_split=0.1,
    callbacks=[keras.callbacks.EarlyStopping(monitor="val_loss", patience=4, mode="min")],
    verbose=0,
)
print("learned:", history.history["loss"][-1] < 0.5 * history.history["loss"][0])
error = np.mean(np.abs(model.predict(x_train, verbose=0) - x_train), axis=(1, 2))
threshold = 1.2 * error.max()
found = np.mean(np.abs(model.predict(x_test, verbose=0) - x_test), axis=(1, 2)) > threshold
hours = [i for i in range(STEPS - 1, len(test) - STEPS + 1) if found[i - STEPS + 1 : i].all()]
print("some odd hours found:", bool(found[55:65].any() and found[130:145].any()))
print("quiet hours stay quiet:", not found[:40].any(), "lists", type(hours).__name__)
