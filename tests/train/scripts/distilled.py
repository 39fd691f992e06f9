"""A student that learns what its teacher predicts: ``distilled.py EPOCHS [die]``."""

import json
import os
import signal
import sys

import keras
import numpy as np

keras.utils.set_random_seed(5)
X = np.random.default_rng(0).normal(size=(96, 4)).astype("float32")
Y = X.sum(1, keepdims=True)
FITTING = {"batch_size": 16, "verbose": 0}


class Ends(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 2 and "die" in sys.argv:
            os.kill(os.getpid(), signal.SIGKILL)


def network(width):
    model = keras.Sequential([keras.layers.Dense(width, "tanh"), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    return model


teacher, student = network(16), network(3)
losses = teacher.fit(X, Y, epochs=3, **FITTING).history["loss"]
targets = teacher.predict(X, verbose=0)
learned = student.fit(X, targets, epochs=int(sys.argv[1]), callbacks=[Ends()], **FITTING)
losses += learned.history["loss"] + teacher.fit(X, Y, **FITTING).history["loss"]
losses += [model.evaluate(X, Y, verbose=0) for model in (teacher, student)]
print(json.dumps(losses))
