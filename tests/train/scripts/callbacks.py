"""A plain Keras script for the tests: callbacks that write, decide and stop."""

import sys
from pathlib import Path

import keras
import numpy as np

folder = Path(sys.argv[1])
keras.utils.set_random_seed(2)
generator = np.random.default_rng(0)
x = generator.normal(size=(600, 8)).astype("float32")
y = (x[:, 0] > x[:, 1]).astype("float32")
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1, "sigmoid")])
model.compile(keras.optimizers.SGD(0.5), "binary_crossentropy", metrics=["accuracy"])


class Mine(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        print("my callback: epoch", epoch, self.model.evaluate(x, y, verbose=0)[0])
        if epoch == 1:
            self.model.optimizer.learning_rate = 0.05
        if epoch == 3:
            self.model.stop_training = True


model.fit(
    x,
    y,
    batch_size=64,
    epochs=8,
    validation_data=(x, y),
    verbose=2,
    callbacks=[
        Mine(),
        keras.callbacks.CSVLogger(folder / "log.csv"),
        keras.callbacks.ModelCheckpoint(folder / "best.keras", save_best_only=True),
        keras.callbacks.ReduceLROnPlateau(patience=1),
        keras.callbacks.EarlyStopping(patience=3),
    ],
)
