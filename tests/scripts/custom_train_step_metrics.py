"""A model with train_step and test_step of its own, its own trackers, and a class with no loss at all."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers

keras.utils.set_random_seed(31)
x = np.random.random((300, 10)).astype("float32")
y = x[:, :3].sum(axis=1, keepdims=True) + 0.1 * np.random.normal(size=(300, 1)).astype("float32")


class Regressor(keras.Model):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.loss_tracker = keras.metrics.Mean(name="loss")
        self.mae_metric = keras.metrics.MeanAbsoluteError(name="mae")
        self.loss_fn = keras.losses.MeanSquaredError()

    def train_step(self, data):
        x, y, weight = keras.utils.unpack_x_y_sample_weight(data)
        with tf.GradientTape() as tape:
            predicted = self(x, training=True)
            loss = self.loss_fn(y, predicted, sample_weight=weight)
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply(gradients, self.trainable_variables)
        self.loss_tracker.update_state(loss)
        self.mae_metric.update_state(y, predicted, sample_weight=weight)
        return {"loss": self.loss_tracker.result(), "mae": self.mae_metric.result()}

    def test_step(self, data):
        x, y, _ = keras.utils.unpack_x_y_sample_weight(data)
        predicted = self(x, training=False)
        self.loss_tracker.update_state(self.loss_fn(y, predicted))
        self.mae_metric.update_state(y, predicted)
        return {m.name: m.result() for m in self.metrics}

    @property
    def metrics(self):
        return [self.loss_tracker, self.mae_metric]


inputs = keras.Input((10,))
outputs = layers.Dense(1)(layers.Dense(12, activation="tanh")(inputs))
model = Regressor(inputs, outputs)
model.compile(optimizer=keras.optimizers.Adam(0.01))
weights = np.linspace(0.5, 1.5, 240).astype("float32")
history = model.fit(
    x[:240],
    y[:240],
    sample_weight=weights,
    batch_size=30,
    epochs=5,
    shuffle=False,
    validation_data=(x[240:], y[240:]),
    verbose=0,
)
for name in sorted(history.history):
    print(name, [f"{value:.4f}" for value in history.history[name]])
print("evaluate", [round(v, 4) for v in model.evaluate(x[240:], y[240:], verbose=0)])


class JustCompute(keras.Model):
    """Overrides compute_loss alone, and keeps what Keras does around it."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.penalty = keras.metrics.Mean(name="penalty")

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        error = keras.ops.mean(keras.ops.square(y - y_pred))
        penalty = 0.01 * keras.ops.mean(keras.ops.abs(y_pred))
        self.penalty.update_state(penalty)
        return error + penalty


other = JustCompute(inputs, layers.Dense(1)(inputs))
other.compile(optimizer="rmsprop", metrics=["mae"])
again = other.fit(x, y, batch_size=60, epochs=3, shuffle=False, verbose=0)
print({key: np.round(values, 4).tolist() for key, values in again.history.items()})
