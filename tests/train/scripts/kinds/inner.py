"""Models whose own methods are functions of ``tf.function``."""

import keras
import tensorflow as tf

from kinds.data import X, Y, fitted
from kinds.whole import contrastive_of

FITTING = {"batch_size": 16, "shuffle": False, "validation_data": (X[:30], Y[:30, None])}


class Inner(keras.Model):
    """Dropout in a function in a function."""

    def __init__(self, width):
        super().__init__()
        self.hidden = keras.layers.Dense(8, "tanh")
        self.dropout = keras.layers.Dropout(0.3)
        self.out = keras.layers.Dense(width)

    def build(self, shape):
        self.hidden.build(shape)
        self.out.build((None, 8))

    @tf.function
    def call(self, inputs, training=False):
        return self.out(self.dropout(self.hidden(inputs), training=training))

    @tf.function
    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            predicted = self(x, training=True)
            loss = self.compute_loss(x, y, predicted)
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        return self.compute_metrics(x, y, predicted)

    @tf.function
    def test_step(self, data):
        x, y = data
        predicted = self(x, training=False)
        self.compute_loss(x, y, predicted)
        return self.compute_metrics(x, y, predicted)


def trained(loss, width):
    model = Inner(width)
    model.build((None, X.shape[1]))
    model.compile(keras.optimizers.Adam(0.05), loss, metrics=["mae"])
    return fitted(model, X, Y[:, None], **FITTING)


def functions_of_a_shared_step():
    return trained("mse", 1)


def functions_of_a_whole_step():
    return trained(contrastive_of, 4)


KINDS = {
    way.__name__.replace("_", "-"): way
    for way in (functions_of_a_shared_step, functions_of_a_whole_step)
}
