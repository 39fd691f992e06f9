"""Plain Keras: a small classifier on synthetic data."""

import keras
import numpy as np

keras.utils.set_random_seed(1)
x = np.random.default_rng(1).normal(size=(20_000, 28)).astype("float32")
y = (np.square(x[:, :5]).sum(axis=1) > 4.35).astype("float32")

model = keras.Sequential(
    [
        keras.layers.Input((28,)),
        keras.layers.Dense(200, activation="relu"),
        keras.layers.Dense(200, activation="relu"),
        keras.layers.Dense(1, activation="sigmoid"),
    ]
)
model.compile(keras.optimizers.Adam(1e-3), "binary_crossentropy", metrics=["accuracy"])
model.fit(x[2000:], y[2000:], batch_size=256, epochs=3, verbose=2)
model.evaluate(x[:2000], y[:2000], batch_size=256, verbose=2)
