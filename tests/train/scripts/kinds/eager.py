"""Models that run eagerly, whose Python or whose ``build`` keeps something."""

import keras
import numpy as np
import tensorflow as tf

from kinds.data import BATCH, X, Y, fitted

RNG = np.random.default_rng(5)


class WarmUp(keras.losses.Loss):
    """Counts its calls in Python."""

    def __init__(self):
        super().__init__()
        self.calls = 0

    def call(self, y_true, y_pred):
        self.calls += 1
        return keras.ops.square(y_true - y_pred) * min(1.0, self.calls / 8)


class MovingMean(keras.layers.Layer):
    """Keeps its state where Keras does not look for it."""

    def __init__(self):
        super().__init__()
        self.mean = tf.Variable(tf.zeros(6), trainable=False)

    def call(self, inputs, training=False):
        if training:
            self.mean.assign(0.9 * self.mean + 0.1 * tf.reduce_mean(inputs, 0))
        return inputs - self.mean


class Keeping(keras.Model):
    """Keeps its losses, and draws from a generator of the script's."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.kept = []

    def train_step(self, data):
        logs = super().train_step(data)
        self.kept.append(float(logs["loss"]) + RNG.uniform())
        return logs


class Reading(keras.Model):
    """Takes a branch by its loss in Python, and sets its learning rate there."""

    below = 0.5

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((self(x)[:, 0] - y) ** 2)
        if self.is_low(loss):
            self.optimizer.learning_rate.assign(0.02)
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply(gradients, self.trainable_variables)
        return {"low": loss, "rate": float(self.optimizer.learning_rate)}

    def is_low(self, loss):
        return loss < self.below


class ReadingArrays(Reading):
    """Reads its loss by NumPy, which asks no method of a tensor."""

    def is_low(self, loss):
        return np.asarray(loss) < self.below


class Identity(keras.layers.Layer):
    def build(self, shape):
        self.kernel = self.add_weight(shape=(shape[-1], 4))
        self.kernel.assign(0.3 * np.eye(shape[-1], 4))

    def call(self, inputs):
        return inputs @ self.kernel


class Built(keras.Model):
    """Sets values when it is built, and makes a layer and a metric of its own."""

    def build(self, shape):
        self.scale = keras.layers.Normalization()
        self.scale.adapt(X)
        self.inner = Identity()
        self.outer = keras.layers.Dense(1)
        self.outer.build((None, 4))
        self.outer.bias.assign([0.5])
        self.optimizer.learning_rate = 0.02
        self.told = keras.metrics.Mean(name="told")
        self.calls = 0

    def call(self, inputs):
        self.calls += 1
        return self.outer(self.inner(self.scale(inputs)))


def trained(model, loss="mse"):
    model.compile(keras.optimizers.SGD(0.1), loss, run_eagerly=True)
    return fitted(model, X, Y, batch_size=BATCH, shuffle=False)


def eager_counter():
    loss = WarmUp()
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(1)])
    numbers, variables = trained(model, loss)
    return {**numbers, "calls": loss.calls}, variables


def eager_state():
    layers = [MovingMean(), keras.layers.Dense(1)]
    model = keras.Sequential([keras.Input((6,)), *layers])
    numbers, variables = trained(model)
    return {**numbers, "mean": layers[0].mean.numpy().tolist()}, [*variables, layers[0].mean]


def eager_memory():
    inputs = keras.Input((6,))
    model = Keeping(inputs, keras.layers.Dense(1)(inputs))
    numbers, variables = trained(model)
    return {**numbers, "kept": model.kept}, variables


def eager_branches():
    found = []
    for kind in (Reading, ReadingArrays):
        inputs = keras.Input((6,))
        numbers, variables = trained(kind(inputs, keras.layers.Dense(1)(inputs)))
        found.append(numbers)
    return found, variables


def eager_builds():
    model = Built()
    numbers, variables = trained(model)
    return {
        **numbers,
        "rate": float(model.optimizer.learning_rate),
        "calls": model.calls,
    }, variables


KINDS = {
    way.__name__.replace("_", "-"): way
    for way in (eager_counter, eager_state, eager_memory, eager_branches, eager_builds)
}
