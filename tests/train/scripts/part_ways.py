"""A script whose ranks take different ways, for the tests: `part_ways.py CASE`."""

import os
import sys

import keras
import numpy as np

RANK = int(os.environ.get("OMPI_COMM_WORLD_RANK", "0"))
(case,) = sys.argv[1:]


class Raising(keras.callbacks.Callback):
    """Raises in the fourth batch of all ranks, or of one of them."""

    def __init__(self, ranks):
        super().__init__()
        self.ranks = ranks

    def on_train_batch_end(self, batch, logs=None):
        if batch == 3 and RANK in self.ranks:
            raise ValueError("enough of it")


keras.utils.set_random_seed(3)
x = np.random.default_rng(0).normal(size=(128, 6)).astype("float32")
y = x[:, :1] * 2
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(4, "tanh"), keras.layers.Dense(1)])
model.compile("sgd", "mse", run_eagerly=case.startswith("eager"))
fitting = {"batch_size": 16, "epochs": 2, "verbose": 0, "shuffle": False}
if case.startswith("eager"):
    fitting["batch_size"], x, y = 1, x[:6], y[:6]

if "caught" in case:
    ranks = {"one": [1], "first": [0], "all": [0, 1, 2]}[case.rpartition("-")[2]]
    try:
        model.fit(x, y, callbacks=[Raising(ranks)], **fitting)
    except ValueError as error:
        print("caught:", error)
    losses = model.fit(x, y, **fitting).history["loss"]
    print("losses:", [f"{loss:.5f}" for loss in losses])
elif case == "evaluates-on-one" and RANK == 0:
    model.evaluate(x, y, verbose=0)
elif case == "trains-in-batches-on-one" and RANK == 0:
    model.train_on_batch(x, y)
elif case == "ends-on-one" and RANK == 0:
    pass
elif case == "fits-longer-on-one" and RANK == 0:
    model.fit(x, y, **{**fitting, "epochs": 3})
else:
    model.fit(x, y, **fitting)
print("the end")
