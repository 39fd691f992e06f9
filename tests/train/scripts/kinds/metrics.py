"""Metrics that make their variables when they are first updated."""

import keras
import numpy as np
import tensorflow as tf

from kinds.data import BATCH, X, Y, fitted

CLASSES = np.stack([Y, 1 - Y, (X[:, 3] > 0).astype("float32")], 1)


class Counted(keras.metrics.Metric):
    """Makes its variable by itself, as scripts do."""

    count = None

    def update_state(self, y_true, y_pred, sample_weight=None):
        if self.count is None:
            self.count = self.add_variable((), "zeros", name="count")
        self.count.assign_add(tf.cast(tf.shape(y_true)[0], "float32"))

    def result(self):
        return self.count if self.count is not None else 0.0


class Late(Counted):
    """Makes its variable, which does not begin with zero, when training has begun."""

    updates = 0

    def update_state(self, y_true, y_pred, sample_weight=None):
        self.updates += 1
        if self.updates >= 3 and self.count is None:
            self.count = self.add_variable((), "ones", name="count")
        if self.count is not None:
            self.count.assign_add(1.0)


class InSteps(keras.Model):
    def __init__(self, *told):
        super().__init__()
        self.dense = keras.layers.Dense(3, "sigmoid")
        self.tracker = keras.metrics.Mean(name="loss")
        self.told = [*told] or [
            keras.metrics.F1Score(average="macro", name="f1"),
            keras.metrics.AUC(multi_label=True, name="auc"),
            Counted(name="counted"),
        ]

    @property
    def metrics(self):
        return [self.tracker, *self.told]

    def call(self, inputs):
        return self.dense(inputs)

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            predicted = self(x, training=True)
            loss = tf.reduce_mean(tf.square(y - predicted))
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        return self.count(loss, y, predicted)

    def test_step(self, data):
        x, y = data
        predicted = self(x, training=False)
        return self.count(tf.reduce_mean(tf.square(y - predicted)), y, predicted)

    def count(self, loss, y, predicted):
        self.tracker.update_state(loss)
        for metric in self.told:
            metric.update_state(y, predicted)
        return {metric.name: metric.result() for metric in self.metrics}


class OfWholeBatches(InSteps):
    def train_step(self, data):
        logs = super().train_step(data)
        if len(data[0]) not in (BATCH, len(X) % BATCH):
            raise ValueError("a batch was cut")
        return logs


class InLosses(keras.Model):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.determined = keras.metrics.R2Score(name="determined")

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        self.determined.update_state(y, y_pred)
        return tf.reduce_mean((y - y_pred) ** 2) + sum(self.losses)


class InLogs(keras.Model):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.f1 = keras.metrics.F1Score(average="macro", name="f1")

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        self.f1.update_state(y, y_pred)
        return self.get_metrics_result()


def trained(model, **options):
    model.compile(keras.optimizers.SGD(0.1), **options)
    held_out = (X[:30], CLASSES[:30])
    fitting = {"batch_size": BATCH, "shuffle": False, "validation_data": held_out}
    return fitted(model, X, CLASSES, **fitting)


def functional(kind):
    inputs = keras.Input((6,))
    return kind(inputs, keras.layers.Dense(3, "softmax", kernel_regularizer="l2")(inputs))


def metrics_made_in_steps():
    return trained(InSteps())


def metrics_made_in_eager_steps():
    return trained(InSteps(), run_eagerly=True)


def metrics_made_late():
    return trained(InSteps(Counted(name="counted"), Late(name="late")), run_eagerly=True)


def metrics_counted_before_an_error():
    told = keras.metrics.F1Score(average="macro", name="f1"), Counted(name="counted")
    return trained(OfWholeBatches(*told), run_eagerly=True)


def metrics_made_in_losses():
    return trained(functional(InLosses))


def metrics_made_in_logs():
    return trained(functional(InLogs), loss="mse")


KINDS = {
    way.__name__.replace("_", "-"): way
    for way in (
        metrics_made_in_steps, metrics_made_in_eager_steps, metrics_made_in_losses,
        metrics_made_in_logs, metrics_counted_before_an_error, metrics_made_late,
    )
}  # fmt: skip
