"""A Keras script for the tests: the leader dies among its callbacks, elsewhere in each fit."""

import os
import signal
import sys
from pathlib import Path

import keras
import numpy as np

import matex

folder = Path(sys.argv[1])
keras.utils.set_random_seed(2)
x = np.random.default_rng(0).normal(size=(64, 8)).astype("float32")
y = (x[:, 0] > x[:, 1]).astype("float32")


class Dies(keras.callbacks.Callback):
    def __init__(self, size):
        super().__init__()
        self.size = size

    def on_epoch_end(self, epoch, logs=None):
        with (folder / "own.txt").open("a") as file:
            print(self.size, epoch, file=file)
        if epoch == 1 and matex.size() == self.size > 1 and matex.rank() == 0:
            os.kill(os.getpid(), signal.SIGKILL)


for place in range(3):
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1, "sigmoid")])
    model.compile(keras.optimizers.SGD(0.5), "binary_crossentropy")
    own = folder / str(place)
    own.mkdir()
    callbacks = [
        keras.callbacks.CSVLogger(own / "log.csv"),
        keras.callbacks.ModelCheckpoint(own / "{epoch}.weights.h5", save_weights_only=True),
        keras.callbacks.ModelCheckpoint(own / "best.keras", monitor="loss", save_best_only=True),
    ]
    callbacks.insert((0, 1, 3)[place], Dies(4 - place))
    model.fit(x, y, batch_size=16, epochs=3, verbose=0, callbacks=callbacks)
