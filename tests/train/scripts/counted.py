"""A Keras script for the tests that counts which rows of an HDF5 file are read on each rank."""

import argparse

import h5py
import keras
import numpy as np

import matex
from matex.data import prefetch
from matex.data.hdf5 import Hdf5Rows
from matex.sources.ring_rows import RingRows

parser = argparse.ArgumentParser()
parser.add_argument("file", help="HDF5 file with x and y")
parser.add_argument("counts", help="what each rank read goes to this path and its number")
parser.add_argument("--reread", action="store_true", help="let no row be passed on or kept")
args = parser.parse_args()
prefetch.WORTH_S = 0.0  # every read is slow enough to be made ahead


class Counted(Hdf5Rows):
    """The rows of a data set, counted as they are read."""

    def __init__(self, dataset):
        super().__init__(dataset)
        self.read = np.zeros(len(self), np.int64)

    def rows(self, indices):
        np.add.at(self.read, indices, 1)
        return super().rows(indices)


def passed_over(rows, step):
    rows._store.drop(rows._store.numbers)
    return 0, 0


if args.reread:
    RingRows.after_step = passed_over

keras.utils.set_random_seed(11)
with h5py.File(args.file) as file:
    x, y = Counted(file["x"]), Hdf5Rows(file["y"])
    model = keras.Sequential(
        [
            keras.Input(x.shape[1:]),
            keras.layers.Dense(24, "relu"),
            keras.layers.Dropout(0.1),
            keras.layers.Dense(1, "sigmoid"),
        ]
    )
    model.compile("adam", "binary_crossentropy")
    for fit in range(2):
        model.fit(x, y, epochs=3, batch_size=100, verbose=0)
        np.save(f"{args.counts}-{matex.rank()}-{fit}.npy", x.read)
        x.read[:] = 0
