"""A plain Keras script for the tests: its loss is of pairs of rows, so batches are not divided.

``whole_batches.py [RANK BATCH]``: a callback changes a weight of that rank after that batch of the
first epoch, as a flipped bit does.
"""

import os
import sys

import keras
import numpy as np
import tensorflow as tf

rank, batch = map(int, sys.argv[1:] or (-1, 0))
keras.utils.set_random_seed(3)
x = np.random.default_rng(0).normal(size=(64, 6)).astype("float32")
y = x[:, :1] - x[:, 1:2] ** 2
model = keras.Sequential(
    [keras.Input((6,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(4)],
)


class Flip(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.done = rank != int(os.environ.get("OMPI_COMM_WORLD_RANK", "0"))

    def on_train_batch_end(self, number, logs=None):
        if number == batch and not self.done:
            self.done = True
            kernel = self.model.layers[0].kernel
            kernel.assign(kernel + 4 * tf.one_hot([0] * 6, 8))


def loss(labels, predicted):
    pairs = tf.matmul(predicted, predicted, transpose_b=True)
    return tf.reduce_mean(pairs**2) + tf.reduce_mean((labels - predicted) ** 2)


model.compile("adam", loss)
model.fit(x, y, batch_size=8, epochs=2, verbose=0, callbacks=[Flip()])
