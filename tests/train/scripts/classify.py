"""A plain Keras script for the tests: a small classifier on made data.

Several kinds are trained one after the other, each from the same seed.
"""

import argparse
import collections
import os
import signal

import keras
import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--batch-size", type=int, default=128)
parser.add_argument("--samples", type=int, default=2000)
parser.add_argument("--optimizer", default="adam")
parser.add_argument("--rate", type=float, help="train by SGD with momentum at this rate")
parser.add_argument("--half-life", type=float, help="updates in which that rate falls by half")
parser.add_argument("--falling", action="store_true", help="callbacks lower the rate by epochs")
parser.add_argument("--kind", nargs="+", default=["plain"])
parser.add_argument("--fits", type=int, default=1)
parser.add_argument("--validate", action="store_true")
parser.add_argument("--data", nargs="+", default=[None], help="HDF5 files to train from, by row")
parser.add_argument("--log", help="file in which each fit begins a log of its epochs")
parser.add_argument("--end-all-at", type=int, help="every rank dies after this batch of epoch 1")
args = parser.parse_args()
layers = keras.layers


class EndAll(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.epoch = 0

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        if self.epoch == 1 and batch == args.end_all_at:
            os.kill(os.getpid(), signal.SIGKILL)


class Counting(keras.callbacks.Callback):
    """Counts the epochs that begin."""

    def __init__(self):
        super().__init__()
        self.begun = 0

    def on_epoch_begin(self, epoch, logs=None):
        self.begun += 1

    def on_epoch_end(self, epoch, logs=None):
        assert self.begun == epoch + 1


class Jittering(keras.callbacks.Callback):
    """Moves the weights by noise and the rate by losses."""

    def __init__(self):
        super().__init__()
        self.recent, self.seen = collections.deque(maxlen=2), set()
        self.noise, self.mean = np.random.default_rng(3), keras.metrics.Mean()
        self.epochs = (epoch for epoch in range(9))

    def on_epoch_end(self, epoch, logs=None):
        next(self.epochs)
        self.recent.append(logs["loss"])
        self.seen.add(epoch)
        self.mean.update_state(logs["loss"])
        moved = [w + self.noise.normal(0, 0.1, w.shape) for w in self.model.get_weights()]
        self.model.set_weights(moved)
        optimizer = self.model.optimizer
        optimizer.learning_rate *= 0.5 + self.recent[0] / 2 + float(self.mean.result()) / 2
        assert self.seen == set(range(epoch + 1))


def made_data(path):
    if path:
        import h5py

        file = h5py.File(path)
        return file["x"], file["y"]
    x = np.random.default_rng(3).normal(size=(args.samples, 12)).astype("float32")
    return x, (x[:, 0] * x[:, 1] + 0.3 * x[:, 2] > 0).astype("float32")


def made_model(kind):
    if kind == "two-inputs":
        a, b = keras.Input((6,), name="a"), keras.Input((6,), name="b")
        hidden = layers.Dense(24, "relu")(layers.Concatenate()([a, b]))
        return keras.Model({"a": a, "b": b}, layers.Dense(1, "sigmoid")(hidden))
    penalty = keras.regularizers.L2(0.01) if kind == "regularized" else None
    hidden = [layers.Dense(24, "relu", kernel_regularizer=penalty) for _ in range(2)]
    return keras.Sequential([keras.Input((12,)), *hidden, layers.Dense(1, "sigmoid")])


def train(kind, path):
    keras.utils.set_random_seed(11)
    x, y = made_data(path)
    model = made_model(kind)
    if kind == "two-inputs":
        x = {"a": x[:, :6], "b": x[:, 6:]}
    extra = {"verbose": 2, "callbacks": [] if args.end_all_at is None else [EndAll()]}
    if args.falling:
        falls = keras.callbacks.LearningRateScheduler(lambda epoch, rate: 0.8 * rate)
        extra["callbacks"] += [falls, Counting(), Jittering()]
    if args.log is not None:
        extra["callbacks"].append(keras.callbacks.CSVLogger(args.log))
    if kind == "tf-data":
        import tensorflow as tf

        x = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(args.samples)
        x, y = x.map(lambda a, b: (2 * a, b)).batch(args.batch_size), None
    else:
        extra["batch_size"] = args.batch_size
    if kind == "class-weight":
        extra["class_weight"] = {0: 1.0, 1: 3.0}
    if kind == "unshuffled":
        extra["shuffle"] = False
    if args.validate:
        extra["validation_data"] = (x[:700], y[:700])
    by_rate, rate = args.rate is not None, args.rate
    if args.half_life:
        rate = keras.optimizers.schedules.ExponentialDecay(rate, args.half_life, 0.5)
    model.compile(
        keras.optimizers.SGD(rate, momentum=0.9) if by_rate else args.optimizer,
        "binary_crossentropy",
        metrics=["accuracy", keras.metrics.AUC(name="auc")],
        weighted_metrics=[],
        jit_compile=kind == "jit",
        steps_per_execution=3 if kind == "at-once" else 1,
    )
    for _ in range(args.fits):
        model.fit(x, y, epochs=args.epochs, **extra)
    values = model.evaluate(x, y, batch_size=None if y is None else 200, verbose=0)
    print(f"evaluated {kind}", values)
    print(f"predicted {kind}", model.predict(x, verbose=0).shape)


for kind in args.kind:
    for path in args.data:
        keras.backend.clear_session()
        train(kind, path)
