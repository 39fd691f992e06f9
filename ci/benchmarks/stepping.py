"""Models of ``ci.benchmarks.shared`` whose steps make updates of their own, and a custom loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

__all__ = ["EPOCHS"]

WIDTH, LATENT, UNITS, CRITICS = 64, 16, 256, 3


def rows(count: int) -> np.ndarray:
    """Data: float32, shape (count, WIDTH)."""
    return np.random.default_rng(1).normal(size=(count, WIDTH)).astype("float32")


def dense(inputs: int, outputs: int) -> keras.Model:
    """A network of two hidden layers."""
    hidden = [keras.layers.Dense(UNITS, "relu") for _ in range(2)]
    return keras.Sequential([keras.Input((inputs,)), *hidden, keras.layers.Dense(outputs)])


class Gan(keras.Model):
    """A generator and a discriminator, which make an update each."""

    critics = 1

    def __init__(self) -> None:
        super().__init__()
        self.generator, self.discriminator = dense(LATENT, WIDTH), dense(WIDTH, 1)
        self.seeds = keras.random.SeedGenerator(1)
        self.optimizers = [keras.optimizers.Adam(1e-4) for _ in range(2)]

    def fake(self, real: Any) -> Any:
        """Generated rows, as many as *real* has."""
        noise = keras.random.normal((tf.shape(real)[0], LATENT), seed=self.seeds)
        return self.generator(noise)

    def criticism(self, real: Any) -> Any:
        """Loss of the discriminator."""
        real_loss = tf.nn.softplus(-self.discriminator(real))
        return tf.reduce_mean(real_loss + tf.nn.softplus(self.discriminator(self.fake(real))))

    def train_step(self, data: Any) -> dict[str, Any]:
        for _ in range(self.critics):
            with tf.GradientTape() as tape:
                criticism = self.criticism(data)
            self.update(self.discriminator, self.optimizers[0], tape, criticism)
        with tf.GradientTape() as tape:
            loss = -tf.reduce_mean(self.discriminator(self.fake(data)))
        self.update(self.generator, self.optimizers[1], tape, loss)
        return {"criticism": criticism, "generator": loss}

    def update(self, part: Any, optimizer: Any, tape: Any, loss: Any) -> None:
        """Update the weights of *part* by the gradients of *loss*."""
        weights = part.trainable_weights
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))


class WassersteinGan(Gan):
    """One with a penalty on the critic's slope, and several updates of the critic a step."""

    critics = CRITICS

    def criticism(self, real: Any) -> Any:
        fake = self.fake(real)
        share = keras.random.uniform((tf.shape(real)[0], 1), seed=self.seeds)
        between = real + share * (fake - real)
        with tf.GradientTape() as tape:
            tape.watch(between)
            judged = self.discriminator(between)
        slope = tf.sqrt(tf.reduce_sum(tape.gradient(judged, between) ** 2, 1) + 1e-12)
        gap = self.discriminator(fake) - self.discriminator(real)
        return tf.reduce_mean(gap) + 10.0 * tf.reduce_mean((slope - 1.0) ** 2)


class Autoencoder(keras.Model):
    """A variational one."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = dense(WIDTH, 2 * LATENT), dense(LATENT, WIDTH)
        self.seeds = keras.random.SeedGenerator(1)

    def loss_of(self, x: Any) -> Any:
        """Squared differences of outputs, and the divergence of the latent distribution."""
        mean, log = tf.split(self.encoder(x), 2, 1)
        draw = keras.random.normal(tf.shape(mean), seed=self.seeds)
        made = self.decoder(mean + tf.exp(log / 2) * draw)
        divergence = 0.5 * tf.reduce_sum(tf.exp(log) + mean**2 - 1.0 - log, 1)
        return tf.reduce_mean(tf.reduce_sum((made - x) ** 2, 1) + divergence)

    def train_step(self, data: Any) -> dict[str, Any]:
        return {"loss": updated(self, self.optimizer, data)}


class Contrastive(keras.Model):
    """An encoder whose loss compares each row with all others of its batch."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = dense(WIDTH, LATENT)
        self.seeds = keras.random.SeedGenerator(1)

    def loss_of(self, x: Any) -> Any:
        """Cross-entropy of finding a row's second view among those of all rows."""
        views = [x + keras.random.normal(tf.shape(x), seed=self.seeds) for _ in range(2)]
        first, second = (tf.math.l2_normalize(self.encoder(view), 1) for view in views)
        likeness = 10.0 * tf.matmul(first, second, transpose_b=True)
        labels = tf.range(tf.shape(x)[0])
        return tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=likeness)
        )

    def train_step(self, data: Any) -> dict[str, Any]:
        return {"loss": updated(self, self.optimizer, data)}


def updated(model: Autoencoder | Contrastive, optimizer: Any, x: Any) -> Any:
    """The loss of *x*, by whose gradients the weights of *model* are updated."""
    with tf.GradientTape() as tape:
        loss = model.loss_of(x)
    weights = model.trainable_weights
    optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
    return loss


def of_fit(model: keras.Model, batch: int, steps: int) -> Callable[[], object]:
    """Function that makes an epoch of ``model.fit``."""
    model.compile(keras.optimizers.Adam(1e-4))
    x = rows(batch * steps)
    return lambda: model.fit(x, batch_size=batch, shuffle=False, verbose=0)


def of_loop(model: Autoencoder | Contrastive, batch: int, steps: int) -> Callable[[], object]:
    """Function that makes an epoch of a custom loop."""
    optimizer = keras.optimizers.Adam(1e-4)
    step = tf.function(lambda x: updated(model, optimizer, x))
    data = tf.data.Dataset.from_tensor_slices(rows(batch * steps)).batch(batch).cache()
    return lambda: [step(x) for x in data]


#: Function of rows a batch and of steps, which returns one that makes an epoch, by name.
EPOCHS: dict[str, Callable[[int, int], Callable[[], object]]] = {
    "gan": lambda batch, steps: of_fit(Gan(), batch, steps),
    "wgan-gp": lambda batch, steps: of_fit(WassersteinGan(), batch, steps),
    "vae": lambda batch, steps: of_fit(Autoencoder(), batch, steps),
    "vae-loop": lambda batch, steps: of_loop(Autoencoder(), batch, steps),
    "contrastive": lambda batch, steps: of_fit(Contrastive(), batch, steps),
    "contrastive-loop": lambda batch, steps: of_loop(Contrastive(), batch, steps),
}
