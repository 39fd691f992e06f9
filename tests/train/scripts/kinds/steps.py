"""Train steps of one's own, as the guides of Keras write them."""

import keras
import tensorflow as tf

from kinds.data import BATCH, X, Y, fitted
from kinds.models import Own

FITTING = {"batch_size": BATCH, "shuffle": False, "validation_data": (X[:30], Y[:30])}


class Stepping(Own):
    def descend(self, x, loss_of):
        with tf.GradientTape() as tape:
            predicted = self(x, training=True)
            loss = loss_of(predicted)
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        return loss, predicted


class WithMetrics(Stepping):
    """Results of compiled metrics come as a dictionary in the dictionary."""

    def train_step(self, data):
        x, y = data
        _, predicted = self.descend(x, lambda p: self.compute_loss(y=y, y_pred=p))
        return self.told(y, predicted)

    def test_step(self, data):
        x, y = data
        predicted = self(x, training=False)
        self.compute_loss(y=y, y_pred=predicted)
        return self.told(y, predicted)

    def told(self, y, predicted):
        for metric in self.metrics:
            if metric.name == "loss":
                metric.update_state(self.loss(y, predicted))
            else:
                metric.update_state(y, predicted)
        return {metric.name: metric.result() for metric in self.metrics}


class WithTrackers(Stepping):
    """A loss that is counted once a batch, and results under other names than their metrics'."""

    def __init__(self):
        super().__init__()
        self.tracker = keras.metrics.Mean(name="total_loss")
        self.sum = keras.metrics.Sum(name="sum")
        self.error = keras.metrics.MeanAbsoluteError(name="mae")

    @property
    def metrics(self):
        return [self.tracker, self.sum, self.error]

    def train_step(self, data):
        x, y = data
        return self.told(y, *self.descend(x, lambda predicted: self.loss_of(y, predicted)))

    def test_step(self, data):
        x, y = data
        predicted = self(x)
        return self.told(y, self.loss_of(y, predicted), predicted)

    def loss_of(self, y, predicted):
        return tf.reduce_mean(keras.losses.mean_squared_error(y, predicted))

    def told(self, y, loss, predicted):
        self.tracker.update_state(loss)
        self.sum.update_state(loss)
        self.error.update_state(y, predicted)
        return {"loss": self.tracker.result(), "sum": self.sum.result(), "e": self.error.result()}


class WithLossOnly(Stepping):
    def train_step(self, data):
        x, y = data
        loss, _ = self.descend(x, lambda p: keras.losses.binary_crossentropy(y, tf.squeeze(p, -1)))
        return {"loss": loss, "twice": 2 * loss}  # the first name is also that of a metric


class OfParts(keras.Model):
    """Cannot be called: its train step calls the models that it holds."""

    def __init__(self, width):
        super().__init__()
        self.encoder = keras.Sequential([keras.Input((width,)), keras.layers.Dense(3, "tanh")])
        self.decoder = keras.Sequential([keras.Input((3,)), keras.layers.Dense(width)])
        self.tracker = keras.metrics.Mean(name="total")

    @property
    def metrics(self):
        return [self.tracker]

    def train_step(self, x):
        with tf.GradientTape() as tape:
            back = self.decoder(self.encoder(x))
            loss = tf.reduce_mean(tf.reduce_sum(tf.square(back - x), 1))
        gradients = tape.gradient(loss, self.trainable_weights)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_weights, strict=True))
        self.tracker.update_state(loss)
        return {"loss": self.tracker.result()}


def step_of_parts():
    model = OfParts(X.shape[1])
    model.compile(keras.optimizers.SGD(0.1))
    return fitted(model, X, batch_size=BATCH, shuffle=False)


def step_with_metrics():
    model = WithMetrics()
    loss = keras.losses.MeanSquaredError()
    model.compile(keras.optimizers.SGD(0.1), loss, metrics=["mae", "mse"])
    return fitted(model, X, Y.reshape(-1, 1), **FITTING)


def step_with_trackers():
    model = WithTrackers()
    model.compile(keras.optimizers.SGD(0.1))
    return fitted(model, X, Y.reshape(-1, 1), **FITTING)


def step_with_its_loss():
    model = WithLossOnly()
    model.compile(keras.optimizers.SGD(0.1))
    return fitted(model, X, Y, batch_size=BATCH, shuffle=False)


class WithVariables(Stepping):
    """Returns variables, which are read after the update."""

    def train_step(self, data):
        x, y = data
        loss, _ = self.descend(x, lambda predicted: self.compute_loss(y=y, y_pred=predicted))
        steps, rate = self.optimizer.iterations, self.optimizer.learning_rate
        return {"loss": loss, "step": steps, "rate": rate}


class LooksAtWeights(WithVariables):
    def train_step(self, data):
        return super().train_step(data) | {"weight": self.out.kernel[0, 0]}


class WithOtherMetrics(Own):
    """Leaves the loss of Keras's own step out of its metrics."""

    def __init__(self):
        super().__init__()
        self.rows = keras.metrics.Sum(name="rows")

    @property
    def metrics(self):
        return [self.rows]

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        self.rows.update_state(tf.ones_like(y))
        return super().compute_loss(x, y, y_pred, sample_weight, training)


class SmoothsLabels(Stepping):
    """Gives loss and metrics other targets than the data: two columns for a number of a class."""

    def train_step(self, data):
        x, y = data[:2]
        y = 0.9 * tf.one_hot(tf.cast(y, tf.int32), 2) + 0.05
        loss, predicted = self.descend(
            x, lambda p: self.compute_loss(y=y, y_pred=tf.concat([1 - p, p], 1))
        )
        return {"loss": loss} | self.compute_metrics(
            x, y, tf.concat([1 - predicted, predicted], 1), None
        )


class TakesParts(Own):
    """Has a ``call`` that is never used: its data come as a dictionary."""

    def call(self, inputs, training=False):
        return self.hidden(inputs) + self.out(inputs)

    def train_step(self, data):
        with tf.GradientTape() as tape:
            error = self.out(self.hidden(data["x"]))[:, 0] - data["y"]
            loss = tf.reduce_mean(error**2)
        weights = [*self.hidden.trainable_variables, *self.out.trainable_variables]
        self.optimizer.apply(tape.gradient(loss, weights), weights)
        return {"loss": loss}


class GrowsWithRows(Stepping):
    """Gradients that overflow in float16 at the first scale, and grow with the rows of a batch."""

    def __init__(self):
        super().__init__()
        self.hidden = keras.layers.Dense(8, activation="relu", dtype="mixed_float16")
        self.out = keras.layers.Dense(1)
        self.seen = keras.metrics.Mean(name="loss")

    def call(self, x):
        return self.out(self.hidden(x))

    def train_step(self, data):
        x, y = data
        errors = []

        def scaled(predicted):
            errors.append(tf.square(1000.0 * y - predicted[:, 0]))
            rows = tf.cast(tf.shape(x)[0], "float32")
            return self.optimizer.scale_loss(tf.reduce_mean(errors[0]) * rows)

        self.descend(x, scaled)
        self.seen.update_state(errors[0])
        return {"loss": self.seen.result()}


def smoothing(**options):
    model = SmoothsLabels()
    loss = "categorical_crossentropy"
    model.compile(keras.optimizers.SGD(0.1), loss, metrics=["accuracy"], **options)
    return model


def labels_made_in_the_step():
    return fitted(smoothing(), X, Y, batch_size=BATCH, shuffle=False)


def labels_made_eagerly():
    rows = 2 * BATCH
    return fitted(smoothing(run_eagerly=True), X[:rows], Y[:rows], batch_size=BATCH, epochs=1)


def labels_made_batch_by_batch():
    model = smoothing()
    logs = [model.train_on_batch(X[i : i + BATCH], Y[i : i + BATCH]) for i in (0, BATCH)]
    return [[float(value) for value in each] for each in logs], model.variables


def scale_that_overflows():
    model = GrowsWithRows()
    model.compile(keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(1e-6)))
    return fitted(model, X, Y, batch_size=BATCH, shuffle=False)


def call_that_does_not_fit():
    model = TakesParts()
    model.hidden.build((None, 6))
    model.out.build((None, 8))
    model.compile(keras.optimizers.SGD(0.1))
    batches = tf.data.Dataset.from_tensor_slices({"x": X, "y": Y}).batch(BATCH)
    return fitted(model, batches)


def variables_in_logs():
    model = WithVariables()
    model.compile(keras.optimizers.Adam(0.1), "mse")
    return fitted(model, X, Y, batch_size=BATCH, shuffle=False)


def looks_at_weights_afterwards():
    model = LooksAtWeights()
    model.compile(keras.optimizers.Adam(0.1), "mse", run_eagerly=True)
    return fitted(model, X, Y, batch_size=BATCH, shuffle=False)


def other_metrics():
    model = WithOtherMetrics()
    model.compile(keras.optimizers.Adam(0.1), "mse", metrics=["mae"])
    return fitted(model, X, Y.reshape(-1, 1), batch_size=BATCH, shuffle=False)


KINDS = {
    way.__name__.replace("_", "-"): way
    for way in (
        step_with_metrics, step_with_trackers, step_with_its_loss, step_of_parts,
        labels_made_in_the_step, labels_made_eagerly, labels_made_batch_by_batch,
        scale_that_overflows, call_that_does_not_fit, variables_in_logs,
        looks_at_weights_afterwards, other_metrics,
    )
}  # fmt: skip
