"""Two moons straightened by coupling layers: log likelihood as the loss, own train and test steps."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers

keras.utils.set_random_seed(101)
rng = np.random.default_rng(101)

angle = rng.uniform(0, np.pi, 400)
upper = rng.integers(0, 2, 400)
moons = np.stack([np.cos(angle) + upper, np.where(upper, 0.5 - np.sin(angle), np.sin(angle))], -1)
moons += rng.normal(0, 0.05, moons.shape)
norm = layers.Normalization()
norm.adapt(moons)
normalized = np.array(norm(moons))


def coupling(width=16):
    inputs = keras.Input((2,))
    t = layers.Dense(2)(layers.Dense(width, activation="relu")(inputs))
    s = layers.Dense(2, activation="tanh")(layers.Dense(width, activation="relu")(inputs))
    return keras.Model(inputs, [s, t])


class RealNVP(keras.Model):
    def __init__(self, depth):
        super().__init__()
        self.masks = tf.constant([[0, 1], [1, 0]] * (depth // 2), dtype="float32")
        self.loss_tracker = keras.metrics.Mean(name="loss")
        self.steps = [coupling() for _ in range(depth)]

    @property
    def metrics(self):
        return [self.loss_tracker]

    def call(self, x, training=True):
        log_det = 0
        direction = -1 if training else 1
        for i in range(len(self.steps))[::direction]:
            kept = x * self.masks[i]
            s, t = self.steps[i](kept)
            s, t = s * (1 - self.masks[i]), t * (1 - self.masks[i])
            gate = (direction - 1) / 2
            x = (1 - self.masks[i]) * (
                x * tf.exp(direction * s) + direction * t * tf.exp(gate * s)
            ) + kept
            log_det += gate * tf.reduce_sum(s, axis=1)
        return x, log_det

    def log_loss(self, x):
        y, log_det = self(x)
        log_likelihood = -0.5 * tf.reduce_sum(y**2, axis=1) - np.log(2 * np.pi) + log_det
        return -tf.reduce_mean(log_likelihood)

    def train_step(self, data):
        with tf.GradientTape() as tape:
            loss = self.log_loss(data)
        g = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(g, self.trainable_variables))
        self.loss_tracker.update_state(loss)
        return {"loss": self.loss_tracker.result()}

    def test_step(self, data):
        self.loss_tracker.update_state(self.log_loss(data))
        return {"loss": self.loss_tracker.result()}


model = RealNVP(depth=4)
model.compile(optimizer=keras.optimizers.Adam(0.003))
history = model.fit(
    normalized, batch_size=64, epochs=5, validation_split=0.2, shuffle=False, verbose=0
)
print(
    "loss",
    np.round(history.history["loss"], 3),
    "held out",
    np.round(history.history["val_loss"], 3),
)
z, _ = model(normalized)
samples = rng.normal(size=(100, 2)).astype("float32")
x, _ = model.predict(samples, verbose=0)
print("latent mean near zero:", bool(np.all(np.abs(np.mean(z, axis=0)) < 0.5)), "samples", x.shape)
