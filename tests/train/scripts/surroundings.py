"""A Keras script that says what it finds around itself, and trains a little."""

import atexit
import pickle
import sys

import keras
import numpy as np


class Kept:
    """An object to be pickled when the script has ended."""


atexit.register(lambda: print("pickled:", type(pickle.loads(pickle.dumps(Kept())))))
print(__spec__.name, *sys.argv[1:])
print("terminal:", sys.stdout.isatty(), sys.stdin.isatty())
print(input("number? "), "and", [line.strip() for line in sys.stdin])
x = np.arange(64, dtype="float32").reshape(16, 4) / 64
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1, kernel_initializer="ones")])
model.compile("sgd", "mse")
model.fit(x, x[:, :1], batch_size=8, shuffle=False, verbose=2)
