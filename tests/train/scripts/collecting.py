"""A plain Keras script for the tests: callbacks that collect, change weights, ask, raise and stop.

Prints what the script holds afterwards, on each rank alike.
"""

import json
import os
import random
import time

import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(3)
generator = np.random.default_rng(0)
x = generator.normal(size=(200, 8)).astype("float32")
y = (x[:, 0] > x[:, 1]).astype("float32")
RANK = int(os.environ.get("OMPI_COMM_WORLD_RANK", "0"))
LAST = int(os.environ.get("OMPI_COMM_WORLD_SIZE", "1")) - 1


def tell(name, value):
    print("told", json.dumps({name: value}), flush=True)


def made():
    keras.utils.set_random_seed(4)
    inputs = keras.Input((8,))
    model = keras.Model(inputs, keras.layers.Dense(1, "sigmoid")(inputs))
    model.compile(keras.optimizers.SGD(0.5), "binary_crossentropy", metrics=["accuracy"])
    return model


def fit(model, *callbacks, **options):
    given = {"batch_size": 40, "epochs": 3, "shuffle": False, "verbose": 0, **options}
    return model.fit(x, y, callbacks=list(callbacks), **given)


def rounded(values):
    return [round(float(value), 4) for value in values]


class Losses(keras.callbacks.Callback):
    """Collects; what it holds is read after fit."""

    def __init__(self):
        super().__init__()
        self.losses = []
        self.by_epoch = {}
        self.seen = []
        self.asked = []

    def on_train_begin(self, logs=None):
        self.verbose = self.params["verbose"]

    def on_train_batch_begin(self, batch, logs=None):
        self.seen.append(batch)

    def on_train_batch_end(self, batch, logs=None):
        self.seen.append(batch)
        self.losses.append(logs["loss"])

    def on_epoch_end(self, epoch, logs=None):
        self.by_epoch[epoch] = logs["val_loss"]
        self.asked.append(self.model.evaluate(x[:7], y[:7], verbose=0)[0])
        self.asked.append(float(self.model.predict(x[:3], verbose=0).mean()))


log, epochs_seen = Losses(), []
note = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: epochs_seen.append(epoch))
model = made()
fit(model, [log], note, validation_data=(x[:50], y[:50]), verbose=2)
tell("losses", rounded(log.losses))
tell("by epoch", {epoch: round(value, 4) for epoch, value in log.by_epoch.items()})
tell("seen", log.seen)
tell("asked", rounded(log.asked))
tell("verbose", log.verbose)
tell("lambda", epochs_seen)
tell("history", rounded(model.history.history["val_loss"]))

# The generators stand where plain Keras leaves them.
tell("numpy", float(np.random.rand()))  # noqa: NPY002 - the global one is meant
tell("python", random.random())
tell("tensorflow", round(float(tf.random.uniform(())), 6))
tell("keras", round(float(keras.random.uniform(())), 6))


class Halving(keras.callbacks.Callback):
    """Changes weights, one epoch alike on all ranks and one epoch not, nor when training ends."""

    def on_train_end(self, logs=None):
        if RANK == LAST > 0:
            self.model.set_weights([weight + 1 for weight in self.model.get_weights()])

    def on_epoch_end(self, epoch, logs=None):
        self.model.set_weights([weight / 2 for weight in self.model.get_weights()])
        if epoch == 1 and RANK == LAST > 0:
            self.model.set_weights([weight + 1 for weight in self.model.get_weights()])


model = made()
fit(model, Halving())
tell("halved", rounded(model.get_weights()[0].ravel()))


class Raising(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == 3:
            raise ValueError("enough")


model = made()
try:
    fit(model, Raising())
except ValueError as error:
    tell("raised", str(error))
fit(model, epochs=1)
tell("after it", rounded(model.get_weights()[0].ravel()))


class Stopping(keras.callbacks.Callback):
    def __init__(self, at, ranks=(0, 1, 2)):
        super().__init__()
        self.at, self.ranks = at, ranks

    def on_train_batch_end(self, batch, logs=None):
        if batch == self.at and RANK in self.ranks:
            self.model.stop_training = True


for at in (0, 2, 4):
    model, log = made(), Losses()
    fit(model, Stopping(at), log, validation_data=(x[:50], y[:50]))
    tell(f"stopped {at}", int(model.optimizer.iterations.numpy()))
    tell(f"seen until {at}", log.seen)

model = made()  # one rank alone wants to
fit(model, Stopping(2, ranks=[LAST]) if LAST else Stopping(3))
tell("one stopped", int(model.optimizer.iterations.numpy()))

model, log = made(), Losses()
model.compile("sgd", "mse", steps_per_execution=2)
fit(model, log, validation_data=(x[:50], y[:50]), epochs=1)
tell("executions", log.seen)


class Evaluating(keras.callbacks.Callback):
    """Sees each batch of an evaluation, or of a prediction."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def on_test_batch_end(self, batch, logs=None):
        self.seen.append([batch, round(logs["loss"], 4)])

    def on_predict_batch_end(self, batch, logs=None):
        self.seen.append([batch, list(logs["outputs"].shape)])


model, log = made(), Evaluating()
fit(model, log, validation_data=(x[:50], y[:50]), validation_batch_size=20, epochs=1)
model.evaluate(x, y, batch_size=100, callbacks=[log], verbose=0)
model.predict(x, batch_size=80, callbacks=[log], verbose=0)
tell("batches", [batch for batch, _ in log.seen])
tell("values", [round(float(np.sum(value)), 4) for _, value in log.seen])


class Training(keras.callbacks.Callback):
    """Trains another model by batches and by fit, and the running one on rows that it has seen."""

    def on_train_begin(self, logs=None):
        self.other, self.seen = made(), []

    def on_train_batch_end(self, batch, logs=None):
        self.seen.append(float(self.other.train_on_batch(x[:9], y[:9])[0]))

    def on_epoch_end(self, epoch, logs=None):
        history = self.other.fit(x, y, batch_size=50, shuffle=False, verbose=0)
        self.seen.append(history.history["loss"][0])
        self.seen.append(float(self.model.train_on_batch(x[-9:], y[-9:])[0]))


model, training = made(), Training()
fit(model, training, epochs=2)
tell("trained between steps", rounded(training.seen))
tell("after such steps", rounded(model.get_weights()[0].ravel()))
tell("made them", int(model.optimizer.iterations.numpy()))


class Rewinding(keras.callbacks.Callback):
    """Goes back, in each of its calls once, to a file that holds the optimizer, too."""

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch
        if epoch == 1:
            self.model.load_weights("first.weights.h5")

    def on_train_batch_end(self, batch, logs=None):
        if batch == 2 and self.epoch == 1:
            self.model.load_weights("first.weights.h5")

    def on_epoch_end(self, epoch, logs=None):
        logs |= {"note": f"epoch {epoch}", "nothing": None, "where": {"file": "first"}}
        if epoch == 0:
            self.model.save_weights("first.weights.h5")
        if epoch == 1:
            self.model.load_weights("first.weights.h5")


model = made()
model.compile("adam", "mse")
noted = fit(model, Rewinding()).history
tell("noted", repr([noted["note"], noted["nothing"], noted["where"]]))
tell("rewound", [int(model.optimizer.iterations.numpy()), *rounded(model.get_weights()[0].ravel())])


class Beginning(keras.callbacks.Callback):
    """Reads and writes a file before the first step, in which Keras makes the slots."""

    def on_train_begin(self, logs=None):
        self.model.load_weights("first.weights.h5")

    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 0:
            self.model.save_weights("begun.weights.h5")


model = made()
model.compile("adam", "mse")
fit(model, Beginning())
model.load_weights("begun.weights.h5")
fit(model, epochs=1)
tell("begun", [int(model.optimizer.iterations.numpy()), *rounded(model.get_weights()[0].ravel())])


class Slow(keras.callbacks.Callback):
    """Runs on one rank, as it says."""

    on_one_rank = True
    calls = 0

    def on_epoch_end(self, epoch, logs=None):
        time.sleep(0.01)
        self.calls += 1


slow = Slow()
fit(made(), slow)
print("one rank", slow.calls, flush=True)
