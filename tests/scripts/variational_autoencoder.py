"""A VAE on 8 x 8 pictures: sampling layer, own train_step and test_step, three trackers."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

keras.utils.set_random_seed(17)
rng = np.random.default_rng(17)


class Sampling(layers.Layer):
    """Draw z from the mean and the log of the variance."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.seed_generator = keras.random.SeedGenerator(1337)

    def call(self, inputs):
        mean, log_var = inputs
        noise = keras.random.normal(ops.shape(mean), seed=self.seed_generator)
        return mean + ops.exp(0.5 * log_var) * noise


class VAE(keras.Model):
    def __init__(self, encoder, decoder, **kwargs):
        super().__init__(**kwargs)
        self.encoder, self.decoder = encoder, decoder
        self.total = keras.metrics.Mean(name="loss")
        self.reconstruction = keras.metrics.Mean(name="reconstruction_loss")
        self.kl = keras.metrics.Mean(name="kl_loss")

    @property
    def metrics(self):
        return [self.total, self.reconstruction, self.kl]

    def losses_of(self, data):
        mean, log_var, z = self.encoder(data)
        rebuilt = self.decoder(z)
        reconstruction = ops.mean(
            ops.sum(keras.losses.binary_crossentropy(data, rebuilt), axis=(1, 2))
        )
        kl = -0.5 * (1 + log_var - ops.square(mean) - ops.exp(log_var))
        return reconstruction, ops.mean(ops.sum(kl, axis=1))

    def track(self, reconstruction, kl):
        self.total.update_state(reconstruction + kl)
        self.reconstruction.update_state(reconstruction)
        self.kl.update_state(kl)
        return {m.name: m.result() for m in self.metrics}

    def train_step(self, data):
        with tf.GradientTape() as tape:
            reconstruction, kl = self.losses_of(data)
            loss = reconstruction + kl
        grads = tape.gradient(loss, self.trainable_weights)
        self.optimizer.apply_gradients(zip(grads, self.trainable_weights))
        return self.track(reconstruction, kl)

    def test_step(self, data):
        return self.track(*self.losses_of(data))


bars = np.zeros((320, 8, 8, 1), "float32")
for image, place in zip(bars, rng.integers(0, 7, 320)):
    image[:, place : place + 2] = 1.0

inputs = keras.Input((8, 8, 1))
x = layers.Conv2D(8, 3, strides=2, padding="same", activation="relu")(inputs)
x = layers.Dense(16, activation="relu")(layers.Flatten()(x))
z_mean, z_log_var = layers.Dense(2, name="z_mean")(x), layers.Dense(2, name="z_log_var")(x)
encoder = keras.Model(inputs, [z_mean, z_log_var, Sampling()([z_mean, z_log_var])], name="encoder")
latent = keras.Input((2,))
x = layers.Reshape((4, 4, 8))(layers.Dense(128, activation="relu")(latent))
x = layers.Conv2DTranspose(1, 3, strides=2, padding="same", activation="sigmoid")(x)
decoder = keras.Model(latent, x, name="decoder")

vae = VAE(encoder, decoder)
vae.compile(optimizer=keras.optimizers.Adam(0.01))
history = vae.fit(bars[:256], epochs=8, batch_size=32, verbose=0)
print("keys", sorted(history.history), "epochs", history.epoch)
losses = history.history["loss"]
print("falls to less than", 0.8 if losses[-1] < 0.8 * losses[0] else 1.0, "of the first epoch")
results = vae.evaluate(bars[256:], verbose=0, return_dict=True)
print("held out below 35:", results["loss"] < 35, sorted(results))
grid = np.stack([decoder.predict(np.array([[a, 0.0]]), verbose=0)[0, ..., 0] for a in (-1, 0, 1)])
print("decoded", grid.shape, bool(grid.min() >= 0 and grid.max() <= 1))
vae.decoder.save("decoder.keras")
print("reloaded", keras.models.load_model("decoder.keras").output_shape)
