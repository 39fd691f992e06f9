# ruff: noqa: PTH123, SIM115 - files as scripts open them, which nobody closes
"""Files that are open when the program ends by an exception or a nonzero status."""

import bz2
import csv
import gzip
import io
import os
import sys
import zipfile

import h5py
import keras
import numpy as np


class Logged(keras.callbacks.Callback):
    """One line an epoch, into a file that nobody closes."""

    def __init__(self):
        super().__init__()
        self.file = open("log.txt", "w")

    def on_epoch_end(self, epoch, logs=None):
        self.file.write(f"{epoch}\n")


def opened():
    archive = zipfile.ZipFile("all.zip", "w")
    archive.writestr("name", "content")
    table = h5py.File("table.h5", "w")
    table.create_dataset("a", data=np.arange(1000), maxshape=(None,))
    raw = open("raw.bin", "wb")
    raw.write(b"bytes")
    wrapped = io.TextIOWrapper(gzip.open("wrapped.gz", "wb"))
    wrapped.write("in a wrapper")
    packed = bz2.open("packed.bz2", "wt")
    packed.write("packed")
    return archive, table, raw, wrapped, packed


def main(how: str) -> None:
    rows = csv.writer(open("rows.csv", "w"))
    rows.writerow(["a", 1])
    kept = opened()
    model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    x = np.ones((8, 2), "float32")
    model.fit(x, x[:, :1], batch_size=4, epochs=2, verbose=0, callbacks=[Logged()])
    kept[1]["a"].resize((2000,))
    rows.writerow(["b", 2])
    if how == "raise":
        raise ValueError("the end")
    if how == "status":
        sys.exit(3)
    if how == "at-once":
        os._exit(4)


if __name__ == "__main__":
    main(sys.argv[1])
