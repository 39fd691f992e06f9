"""Weights and momenta after each step of a fit, in a file of each rank of the given directory.

noted_weights.py DIRECTORY [EPOCHS]
"""

import os
import sys
from pathlib import Path

import keras
import numpy as np

generator = np.random.default_rng(3)
X = generator.normal(size=(54, 6)).astype("float32")
Y = (X[:, :1] > 0).astype("float32")
noted = []


class Note(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        variables = [*model.trainable_variables, *model.optimizer.variables]
        noted.append(np.concatenate([np.ravel(variable.numpy()) for variable in variables]))


keras.utils.set_random_seed(5)
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(1)])
model.compile(keras.optimizers.Adam(0.01, clipnorm=0.3), "mse")
epochs = int(sys.argv[2]) if len(sys.argv) > 2 else 1
model.fit(X, Y, batch_size=9, epochs=epochs, shuffle=False, verbose=0, callbacks=[Note()])
rank = os.environ.get("OMPI_COMM_WORLD_RANK", "alone")
np.save(Path(sys.argv[1]) / f"rank-{rank}.npy", noted)
