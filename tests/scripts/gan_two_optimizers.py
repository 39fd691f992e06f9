"""A small GAN that learns a ring of points: two optimizers in one train_step, a monitor that draws."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers

keras.utils.set_random_seed(8)
rng = np.random.default_rng(8)

LATENT = 4
angles = rng.uniform(0, 2 * np.pi, 512)
points = np.stack([np.cos(angles), np.sin(angles)], -1) + rng.normal(0, 0.05, (512, 2))
points = points.astype("float32")


class GAN(keras.Model):
    def __init__(self, generator, discriminator, **kwargs):
        super().__init__(**kwargs)
        self.generator = generator
        self.discriminator = discriminator
        self.seed_generator = keras.random.SeedGenerator(1)
        self.d_tracker = keras.metrics.Mean(name="d_loss")
        self.g_tracker = keras.metrics.Mean(name="g_loss")

    def compile(self, d_optimizer, g_optimizer, loss_fn):
        super().compile()
        self.d_optimizer = d_optimizer
        self.g_optimizer = g_optimizer
        self.loss_fn = loss_fn

    @property
    def metrics(self):
        return [self.d_tracker, self.g_tracker]

    def train_step(self, real):
        if isinstance(real, tuple):
            real = real[0]
        size = tf.shape(real)[0]
        noise = keras.random.normal((size, LATENT), seed=self.seed_generator)
        fake = self.generator(noise)
        both = tf.concat([fake, real], axis=0)
        labels = tf.concat([tf.ones((size, 1)), tf.zeros((size, 1))], axis=0)
        with tf.GradientTape() as tape:
            d_loss = self.loss_fn(labels, self.discriminator(both))
        grads = tape.gradient(d_loss, self.discriminator.trainable_weights)
        self.d_optimizer.apply_gradients(zip(grads, self.discriminator.trainable_weights))

        noise = keras.random.normal((size, LATENT), seed=self.seed_generator)
        with tf.GradientTape() as tape:
            g_loss = self.loss_fn(tf.zeros((size, 1)), self.discriminator(self.generator(noise)))
        grads = tape.gradient(g_loss, self.generator.trainable_weights)
        self.g_optimizer.apply_gradients(zip(grads, self.generator.trainable_weights))
        self.d_tracker.update_state(d_loss)
        self.g_tracker.update_state(g_loss)
        return {m.name: m.result() for m in self.metrics}


class Monitor(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        noise = keras.random.normal((16, LATENT), seed=epoch)
        sample = np.asarray(self.model.generator(noise))
        np.savetxt(f"generated_{epoch}.csv", sample, fmt="%.4f", delimiter=",")


generator = keras.Sequential(
    [keras.Input((LATENT,)), layers.Dense(24, activation="leaky_relu"), layers.Dense(2)]
)
discriminator = keras.Sequential(
    [keras.Input((2,)), layers.Dense(24, activation="leaky_relu"), layers.Dense(1)]
)
gan = GAN(generator, discriminator)
gan.compile(
    d_optimizer=keras.optimizers.Adam(0.01),
    g_optimizer=keras.optimizers.Adam(0.01),
    loss_fn=keras.losses.BinaryCrossentropy(from_logits=True),
)
dataset = tf.data.Dataset.from_tensor_slices(points).batch(64)
history = gan.fit(dataset, epochs=4, callbacks=[Monitor()], verbose=0)
for epoch in range(4):
    print(
        f"{epoch}: d {history.history['d_loss'][epoch]:.3f} g {history.history['g_loss'][epoch]:.3f}"
    )
print("steps", int(gan.d_optimizer.iterations), int(gan.g_optimizer.iterations))
sample = np.asarray(generator(keras.random.normal((200, LATENT), seed=5)))
print("sample", sample.shape, "mean radius", round(float(np.linalg.norm(sample, axis=1).mean()), 2))
