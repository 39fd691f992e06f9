"""Two fits of 24 steps with a factor of the loss in Python, set at other times; writes losses.

In the first a callback sets it as training begins, in the second as each epoch does.
"""

import json
import sys
from pathlib import Path

import keras
import numpy as np
from kinds.python import Scaled

import matex


class Annealing(keras.callbacks.Callback):
    def __init__(self, loss, at):
        super().__init__()
        self.loss, self.at = loss, at

    def on_train_begin(self, logs=None):
        if self.at == "training":
            self.loss.factor = 0.5

    def on_epoch_begin(self, epoch, logs=None):
        if self.at == "epochs":
            self.loss.factor = 0.4 / (1 + epoch)


rng = np.random.default_rng(6)
x = rng.normal(size=(128, 6)).astype("float32")
y = (x[:, :1] * x[:, 1:2]).astype("float32")
keras.utils.set_random_seed(8)
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(1)])
losses = []
for at in ("training", "epochs"):
    loss = Scaled()
    model.compile(keras.optimizers.SGD(0.1), loss)
    history = model.fit(
        x, y, batch_size=16, epochs=3, shuffle=False, verbose=0, callbacks=[Annealing(loss, at)]
    )
    losses += history.history["loss"]
Path(sys.argv[1], f"losses-{matex.rank()}.json").write_text(json.dumps(losses))
