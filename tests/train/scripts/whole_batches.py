"""A plain Keras script for the tests: its loss is of pairs of rows, so batches are not divided."""

import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(3)
x = np.random.default_rng(0).normal(size=(64, 6)).astype("float32")
y = x[:, :1] - x[:, 1:2] ** 2
model = keras.Sequential(
    [keras.Input((6,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(4)],
)


def loss(labels, predicted):
    pairs = tf.matmul(predicted, predicted, transpose_b=True)
    return tf.reduce_mean(pairs**2) + tf.reduce_mean((labels - predicted) ** 2)


model.compile("adam", loss)
model.fit(x, y, batch_size=8, epochs=2, verbose=0)
