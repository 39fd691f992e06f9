"""Leftovers of Horovod that train wrongly: each must be refused, by name, before an update."""

import keras
import tensorflow as tf
from horovod_data import BATCH, RATE, ROWS, X, Y

import matex as hvd

MINE = slice(hvd.rank(), None, hvd.size())


def sharded():
    data = tf.data.Dataset.from_tensor_slices((X, Y)).shard(hvd.size(), hvd.rank())
    return data.shuffle(ROWS).batch(BATCH).prefetch(2)


def generated():
    while True:
        yield X[MINE], Y[MINE]


def custom_loop(model):
    for x, y in sharded():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x) - y) ** 2)
        (weights,) = model.trainable_variables
        tape = hvd.DistributedGradientTape(tape)
        weights.assign_sub(RATE * tape.gradient(loss, weights))


CASES = {
    "validation, arrays": lambda model: model.fit(X, Y, validation_data=(X[MINE], Y[MINE])),
    "fit, dataset": lambda model: model.fit(sharded()),
    "fit, arrays": lambda model: model.fit(X[MINE], Y[MINE]),
    "fit, rows": lambda model: model.fit(X[hvd.rank() :], Y[hvd.rank() :]),
    "validation": lambda model: model.fit(X, Y, validation_data=sharded()),
    "evaluate": lambda model: model.evaluate(X[MINE], Y[MINE]),
    "predict": lambda model: model.predict(X[MINE]),
    "passes": lambda model: hvd.DistributedOptimizer(model.optimizer, backward_passes_per_step=4),
    "op": lambda model: hvd.DistributedGradientTape(tf.GradientTape(), op="sum"),
    "optimizer": hvd.DistributedOptimizer,
    "tape": hvd.DistributedGradientTape,
    "variables": lambda model: hvd.broadcast_variables(model.variables, root_rank=0),
    "callback": lambda model: hvd.callbacks.BroadcastGlobalVariablesCallback(0),
    "fit, generator": lambda model: model.fit(generated(), steps_per_epoch=3),
    "train_on_batch": lambda model: model.train_on_batch(X[MINE], Y[MINE]),
    "custom loop": custom_loop,
}


def sayings(network):
    """Case -> what it was refused with, "" where it was not, and whether weights had changed."""
    found = {}
    for case, call in CASES.items():
        model = network()
        model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(RATE)), "mse")
        said = ""
        try:
            call(model)
        except (hvd.MatexError, AttributeError) as error:
            said = str(error)
        found[case] = [said, bool(model.get_weights()[0].any())]
    return found
