"""Steps that return results of compiled metrics beside a loss of their own, by fit and evaluate."""

import json
import sys

import keras
import numpy as np
import tensorflow as tf


class Stepping(keras.Model):
    def __init__(self):
        super().__init__()
        self.outputs = keras.layers.Dense(1)

    def call(self, x):
        return self.outputs(x)

    def results(self, y, predicted, loss):
        for metric in self.metrics:
            if metric.name != "loss":
                metric.update_state(y, predicted)
        return {metric.name: metric.result() for metric in self.metrics} | {"loss": loss}

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            predicted = self(x, training=True)
            loss = self.compute_loss(x, y, predicted)
        weights = self.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return self.results(y, predicted, loss)

    def test_step(self, data):
        x, y = data
        predicted = self(x, training=False)
        return self.results(y, predicted, self.compute_loss(x, y, predicted))


x = np.random.default_rng(0).normal(size=(96, 6)).astype("float32")
y = 2 * x[:, :1]
keras.utils.set_random_seed(1)
model = Stepping()
model.compile("sgd", "mse", metrics=["mae"], run_eagerly="eager" in sys.argv)
stop = keras.callbacks.EarlyStopping("loss", patience=1)
history = model.fit(
    x, y, batch_size=32, epochs=3, verbose=0, shuffle=False, callbacks=[stop],
    validation_data=(x[:40], y[:40]), validation_batch_size=16,
)  # fmt: skip
print(json.dumps([history.history, model.evaluate(x, y, verbose=0, return_dict=True)]))
