"""Fits whose callbacks the script looks at afterwards; it may end after some batches of one."""

import argparse
import json
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("out", type=Path)
parser.add_argument("--end-at", default="", help="FIT:BATCHES, or FIT:over")
args = parser.parse_args()


class Watching(keras.callbacks.Callback):
    """Counts batches, and ends the script after some."""

    def __init__(self, fit):
        super().__init__()
        self.fit, self.begun, self.losses = fit, 0, []

    def on_train_batch_begin(self, batch, logs=None):
        self.begun += 1

    def on_train_batch_end(self, batch, logs=None):
        self.losses.append(logs["loss"])
        if args.end_at == f"{self.fit}:{len(self.losses)}":
            raise RuntimeError("the script ends here")


keras.utils.set_random_seed(3)
x = np.random.default_rng(0).normal(size=(80, 4)).astype("float32")
y = (x[:, :1] > 0).astype("float32")
model = keras.Sequential(
    [keras.Input((4,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(1, "sigmoid")]
)
model.compile(
    keras.optimizers.AdamW(0.1, use_ema=True), "binary_crossentropy", metrics=["accuracy"]
)
told, epochs = [], []
# Nothing is an improvement: the third epoch is the last of the first fit.
stopping = keras.callbacks.EarlyStopping("loss", min_delta=10, patience=2)
for fit, more in enumerate([[stopping], []]):
    watching = Watching(fit)
    log = keras.callbacks.CSVLogger(args.out.with_suffix(".csv"), append=True)
    noting = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: epochs.append(epoch))
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(16)
    history = model.fit(data, epochs=4, verbose=0, callbacks=[watching, log, noting, *more])
    told += [history.history["loss"], watching.losses, watching.begun, stopping.stopped_epoch]
    told += [list(epochs)]
    told += [stopping.best, float(np.sum([np.abs(w.numpy()).sum() for w in model.weights]))]
    if args.end_at == f"{fit}:over":
        raise RuntimeError("the script ends between two fits")
args.out.write_text(json.dumps(told))
