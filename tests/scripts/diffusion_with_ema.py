"""A denoiser with an averaged twin: noise levels drawn in the step, EMA by hand, images as callback."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

keras.utils.set_random_seed(97)
rng = np.random.default_rng(97)

images = np.zeros((192, 8, 8, 1), "float32")
for image, place in zip(images, rng.integers(0, 6, (192, 2))):
    image[place[0] : place[0] + 3, place[1] : place[1] + 3] = 1.0


def make_network():
    noisy, variance = keras.Input((8, 8, 1)), keras.Input((1, 1, 1))
    x = layers.Concatenate()([noisy, layers.UpSampling2D(8)(variance)])
    for _ in range(2):
        x = layers.Conv2D(12, 3, padding="same", activation="swish")(x)
    return keras.Model([noisy, variance], layers.Conv2D(1, 1, kernel_initializer="zeros")(x))


class DiffusionModel(keras.Model):
    def __init__(self):
        super().__init__()
        self.normalizer = layers.Normalization()
        self.network = make_network()
        self.ema_network = keras.models.clone_model(self.network)
        self.seed_generator = keras.random.SeedGenerator(3)

    def compile(self, **kwargs):
        super().compile(**kwargs)
        self.noise_loss_tracker = keras.metrics.Mean(name="n_loss")

    @property
    def metrics(self):
        return [self.noise_loss_tracker]

    def mix(self, images):
        size = ops.shape(images)[0]
        noises = keras.random.normal(ops.shape(images), seed=self.seed_generator)
        angles = keras.random.uniform((size, 1, 1, 1), 0.1, 1.5, seed=self.seed_generator)
        rates = ops.sin(angles)
        return ops.cos(angles) * images + rates * noises, rates**2, noises

    def train_step(self, images):
        noisy, variances, noises = self.mix(self.normalizer(images, training=True))
        with tf.GradientTape() as tape:
            noise_loss = self.loss(noises, self.network([noisy, variances], training=True))
        gradients = tape.gradient(noise_loss, self.network.trainable_weights)
        self.optimizer.apply_gradients(zip(gradients, self.network.trainable_weights))
        self.noise_loss_tracker.update_state(noise_loss)
        for weight, ema_weight in zip(self.network.weights, self.ema_network.weights):
            ema_weight.assign(0.9 * ema_weight + 0.1 * weight)
        return {m.name: m.result() for m in self.metrics}

    def test_step(self, images):
        noisy, variances, noises = self.mix(self.normalizer(images, training=False))
        noise_loss = self.loss(noises, self.ema_network([noisy, variances], training=False))
        self.noise_loss_tracker.update_state(noise_loss)
        return {m.name: m.result() for m in self.metrics}

    def generate(self, count):
        x = keras.random.normal((count, 8, 8, 1), seed=11)
        for angle in np.linspace(1.5, 0.1, 5, dtype="float32"):
            noise = self.ema_network(
                [x, ops.full((count, 1, 1, 1), np.sin(angle) ** 2)], training=False
            )
            x = (x - np.sin(angle) * noise) / np.cos(angle)
        return self.normalizer.mean + x * self.normalizer.variance**0.5


model = DiffusionModel()
model.compile(
    optimizer=keras.optimizers.AdamW(0.01, weight_decay=1e-4), loss=keras.losses.mean_absolute_error
)
model.normalizer.adapt(images)
train = (
    tf.data.Dataset.from_tensor_slices(images[:160])
    .shuffle(160, seed=2)
    .batch(32, drop_remainder=True)
)
held_out = tf.data.Dataset.from_tensor_slices(images[160:]).batch(16)
drawn = []
draw = keras.callbacks.LambdaCallback(
    on_epoch_end=lambda epoch, logs: drawn.append(model.generate(2).shape)
)
history = model.fit(train, epochs=6, validation_data=held_out, callbacks=[draw], verbose=0)
print("drawn", len(drawn), tuple(drawn[-1]))
print(
    "learned:",
    history.history["n_loss"][-1] < 0.95 * history.history["n_loss"][0],
    sorted(history.history),
)
print("twin follows:", bool(np.isfinite(model.evaluate(held_out, verbose=0))))
model.ema_network.save_weights("diffusion.weights.h5")
print("generated", model.generate(4).shape)
