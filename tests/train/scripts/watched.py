"""A plain Keras script for the tests: all of Keras's callbacks that write or decide.

``watched.py FOLDER EPOCHS``; a second run in the same folder goes on from the backup.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

import keras
import numpy as np

folder, epochs = Path(sys.argv[1]), int(sys.argv[2])
keras.utils.set_random_seed(2)
generator = np.random.default_rng(0)
x = generator.normal(size=(600, 8)).astype("float32")
y = (x[:, 0] > x[:, 1]).astype("float32")
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1, "sigmoid")])
model.compile(keras.optimizers.SGD(0.5), "binary_crossentropy", metrics=["accuracy"])
callbacks = keras.callbacks


class StopInTheMiddle(callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.epoch = 0

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        if self.epoch == 5 and batch == 3:
            self.model.stop_training = True


model.fit(
    x,
    y,
    batch_size=64,
    epochs=epochs,
    shuffle=False,
    validation_data=(x[:100], 1 - y[:100]),  # gets worse as the model gets better
    verbose=2,
    callbacks=[
        StopInTheMiddle(),
        callbacks.CSVLogger(folder / "log.csv", append=True),
        callbacks.ModelCheckpoint(folder / "best.keras", save_best_only=True),
        callbacks.ModelCheckpoint(folder / "each-{epoch}.weights.h5", save_weights_only=True),
        callbacks.BackupAndRestore(folder / "backup", delete_checkpoint=False),
        *([callbacks.TensorBoard(folder / "board")] if find_spec("tensorboard") else []),
        callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.9),
        callbacks.ReduceLROnPlateau(patience=2),
        callbacks.EarlyStopping(patience=20),
        callbacks.TerminateOnNaN(),
    ],
)
print("steps", int(model.optimizer.iterations.numpy()))
