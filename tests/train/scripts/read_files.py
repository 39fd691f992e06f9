"""A Keras script for the tests that trains on files: `python` and `matex run` both take it."""

import argparse
import json
import threading

import keras

from matex import data

parser = argparse.ArgumentParser()
parser.add_argument("files", nargs="+", help="data files with x and y")
parser.add_argument("--shuffle", action="store_true")
args = parser.parse_args()

for path in args.files:
    keras.utils.set_random_seed(5)
    with data.open(path) as opened:
        model = keras.Sequential(
            [
                keras.Input(opened.x.shape[1:]),
                keras.layers.Rescaling(1 / 255),
                keras.layers.Flatten(),
                keras.layers.Dense(16, "relu"),
                keras.layers.Dense(3, "softmax"),
            ]
        )
        model.compile("adam", "sparse_categorical_crossentropy")
        history = model.fit(
            opened.x,
            opened.y,
            validation_data=(opened.x, opened.y),
            epochs=2,
            batch_size=32,
            shuffle=args.shuffle,
            verbose=0,
        ).history
    print("losses", json.dumps(history["loss"] + history["val_loss"]))
print("readers left:", sum(t.name.startswith("matex-reader") for t in threading.enumerate()))
