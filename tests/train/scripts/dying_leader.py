"""A Keras script for the tests: the leader dies among its callbacks, elsewhere each time."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np

folder = Path(sys.argv[1])
# In pieces: the files of a script that looks for its rank are its own affair.
OWN_RANK = os.environ.get("_".join(("OMPI", "COMM", "WORLD", "RANK")))
keras.utils.set_random_seed(2)
x = np.random.default_rng(0).normal(size=(64, 8)).astype("float32")
y = (x[:, 0] > x[:, 1]).astype("float32")


class Dies(keras.callbacks.Callback):
    """Ends the process of *rank* at the end of an epoch, or of training."""

    def __init__(self, rank, epoch):
        super().__init__()
        self.rank, self.epoch = rank, epoch

    def on_epoch_end(self, epoch, logs=None):
        with (folder / "own.txt").open("a") as file:
            print(self.rank, epoch, file=file)
        self.die(epoch)

    def on_train_end(self, logs=None):
        self.die(None)

    def die(self, epoch):
        if epoch == self.epoch and str(self.rank) == OWN_RANK:
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
        keras.callbacks.BackupAndRestore(own / "backup"),
    ]
    callbacks.insert((0, 1, 3)[place], Dies(place, (1, 1, None)[place]))
    model.fit(x, y, batch_size=16, epochs=3, verbose=0, callbacks=callbacks)

if OWN_RANK == "3":
    os.kill(os.getpid(), signal.SIGKILL)
(folder / "words.txt").write_text("hello")
seen = subprocess.run(["cat", folder / "words.txt"], capture_output=True, text=True, check=False)
(folder / "seen.txt").write_text(repr((seen.returncode, seen.stdout, seen.stderr)))
