"""A plain Keras script for the tests: dropout and batch normalisation."""

import keras
import numpy as np

keras.utils.set_random_seed(5)
generator = np.random.default_rng(1)
x = generator.normal(size=(1600, 8)).astype("float32")
y = (x[:, 0] > 0).astype("int32")
layers = keras.layers
model = keras.Sequential(
    [
        keras.Input((8,)),
        layers.Dense(16, "relu"),
        layers.BatchNormalization(),
        layers.Dropout(0.3),
        layers.Dense(2),
    ]
)
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(keras.optimizers.Adam(0.01), loss, metrics=["accuracy"])
model.fit(x[:600], y[:600], batch_size=50, epochs=10, verbose=2)
print("accuracy", model.evaluate(x[600:], y[600:], verbose=0)[1])
