"""Files in all common ways, written by callbacks of two fits: argv[1] is their folder."""

import json
import logging
import sqlite3
import sys
import time
from pathlib import Path

import keras
import numpy as np

out, epochs, rest_s = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
out.mkdir()
keras.utils.set_random_seed(1)
(out / "whole.txt").write_text("begun\n")
(out / "gone.txt").write_text("begun\n")
log = logging.getLogger("written")
log.addHandler(logging.FileHandler(out / "log.txt"))
log.setLevel(logging.INFO)
log.info("begun")
held = (out / "held.txt").open("w")
held.write("begun\n")
base = sqlite3.connect(out / "base.db")
base.execute("create table epochs (fit, epoch)")
base.commit()


class Writing(keras.callbacks.Callback):
    """Writes at the beginning and at the end of each epoch."""

    number = 0

    def __init__(self):
        super().__init__()
        self.begun = []

    def on_epoch_begin(self, epoch, logs=None):
        self.begun.append(epoch)
        with (out / "begun.txt").open("a") as file:
            file.write(f"{self.number} {epoch}\n")

    def on_train_batch_begin(self, batch, logs=None):
        self.begun.append(batch)

    def on_epoch_end(self, epoch, logs=None):
        time.sleep(rest_s)  # training that takes its time
        line = f"{self.number} {epoch}"
        with (out / "own.txt").open("a") as file:
            file.write(f"{line}\n")
        (out / "whole.txt").write_text(f"{line}\n")
        (out / "gone.txt").unlink(missing_ok=True)
        table = out / "table.json"
        table.write_text(
            json.dumps([*(json.loads(table.read_text()) if table.exists() else []), line])
        )
        log.info(line)
        held.write(f"{line}\n")
        base.execute("insert into epochs values (?, ?)", (self.number, epoch))
        base.commit()
        (out / f"fit{self.number}").mkdir(exist_ok=True)
        np.save(out / f"fit{self.number}" / f"{epoch}.npy", np.arange(epoch + 3))
        np.save(out / "last.npy", np.arange(epoch + 3))


def endless():
    while True:
        yield x[:32], x[:32, :1]


x = np.random.default_rng(0).normal(size=(320, 4)).astype("float32")
model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
writing = Writing()
for number in range(2):
    writing.number = number
    model.fit(
        x, x[:, :1], batch_size=32, epochs=epochs, verbose=0, callbacks=[writing],
        validation_data=endless(), validation_steps=2,
    )  # fmt: skip
held.close()
(out / "begun.json").write_text(json.dumps(writing.begun))
(out / "rows.json").write_text(json.dumps(base.execute("select * from epochs").fetchall()))
base.close()
