"""Train steps that make their updates by nonlinear functions of the gradients."""

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from kinds.data import ROWS, X
from kinds.updates import WIDTH, Autoencoder, Gan, compiled, dense, outcome


class ClippedGan(Gan):
    """Gradients that are clipped by their norm and by their values, few of them at first."""

    def compile(self, d_optimizer, g_optimizer):
        super().compile(d_optimizer, g_optimizer)
        for optimizer, clipped in ((d_optimizer, by_norm), (g_optimizer, by_value)):
            optimizer.apply_gradients = applied_to(clipped, optimizer)


def by_norm(gradients):
    return tf.clip_by_global_norm(gradients, 0.6)[0]


def by_value(gradients):
    return [tf.clip_by_value(gradient, -0.05, 0.05) for gradient in gradients]


def applied_to(clipped, optimizer):
    def apply_gradients(pairs):
        gradients, weights = zip(*pairs, strict=True)
        optimizer.apply(clipped(gradients), weights)

    return apply_gradients


def clipped_gan():
    return compiled(ClippedGan())


class ClippedAutoencoder(Autoencoder):
    """Returns the norm of its gradients, and clips them by one that is not reached at first."""

    def train_step(self, data):
        x = data[0] if isinstance(data, tuple) else data
        with tf.GradientTape() as tape:
            loss = ops.mean(ops.sum((self.decoder(self(x)) - x) ** 2, 1))
        gradients = tape.gradient(loss, self.trainable_weights)
        gradients, norm = tf.clip_by_global_norm(gradients, 7.0)
        self.optimizer.apply(gradients, self.trainable_weights)
        return {"loss": loss, "norm": norm}


def clipped_autoencoder():
    model = ClippedAutoencoder()
    model.compile(keras.optimizers.SGD(0.01))
    return outcome(model, model.optimizer)


class GuardedAutoencoder(Autoencoder):
    """Leaves out an update by gradients that are not numbers, as those of its second step."""

    def train_step(self, data):
        x = data[0] if isinstance(data, tuple) else data
        with tf.GradientTape() as tape:
            loss = ops.mean(ops.sum((self.decoder(self(x)) - x) ** 2, 1))
            scaled = loss * tf.where(self.optimizer.iterations == 1, float("nan"), 1.0)
        gradients = tape.gradient(scaled, self.trainable_weights)
        is_finite = tf.reduce_all([tf.reduce_all(tf.math.is_finite(each)) for each in gradients])
        left = [tf.where(is_finite, each, tf.zeros_like(each)) for each in gradients]
        self.optimizer.apply(left, self.trainable_weights)
        return {"loss": loss}


def guarded_autoencoder():
    model = GuardedAutoencoder()
    model.compile(keras.optimizers.Adam(0.01))
    return outcome(model, model.optimizer)


class SharpnessAware(keras.Model):
    """Moves the weights to where the loss is larger, and applies the gradients of there."""

    def __init__(self):
        super().__init__()
        self.inner = dense(WIDTH, 8, WIDTH)

    def call(self, x):
        return self.inner(x)

    def gradients(self, x):
        with tf.GradientTape() as tape:
            loss = ops.mean((self(x) - x) ** 2)
        return loss, tape.gradient(loss, self.trainable_weights)

    def train_step(self, data):
        x = data[0] if isinstance(data, tuple) else data
        loss, gradients = self.gradients(x)
        norm = tf.linalg.global_norm(gradients)
        moves = [0.05 * gradient / (norm + 1e-12) for gradient in gradients]
        for weight, move in zip(self.trainable_weights, moves, strict=True):
            weight.assign_add(move)
        _, gradients = self.gradients(x)
        for weight, move in zip(self.trainable_weights, moves, strict=True):
            weight.assign_sub(move)
        self.optimizer.apply(gradients, self.trainable_weights)
        return {"unmoved": loss}


def sharpness_aware():
    model = SharpnessAware()
    model.compile(keras.optimizers.Adam(0.01))
    return outcome(model, model.optimizer)


class Adversarial(keras.Model):
    """Learns to say the same of rows that it moved by what the gradients of their rows say."""

    def __init__(self, direction):
        super().__init__()
        self.inner = dense(WIDTH, 8, 3)
        self.direction = direction

    def call(self, x):
        return self.inner(x)

    def divergence(self, said, x):
        return ops.mean(keras.losses.kl_divergence(said, ops.softmax(self(x))))

    def train_step(self, data):
        x = data[0] if isinstance(data, tuple) else data
        said = tf.stop_gradient(ops.softmax(self(x)))
        near = x + 0.01 * tf.sin(37 * x)
        with tf.GradientTape() as tape:
            tape.watch(near)
            divergence = self.divergence(said, near)
        moved = x + 0.5 * self.direction(tape.gradient(divergence, near))
        labels = tf.argmax(x[:, :3], 1)
        with tf.GradientTape() as tape:
            loss = ops.mean(keras.losses.sparse_categorical_crossentropy(labels, self(x), True))
            loss += self.divergence(said, moved)
        self.optimizer.apply(tape.gradient(loss, self.trainable_weights), self.trainable_weights)
        return {"loss": loss}


def adversarial(direction):
    model = Adversarial(direction)
    model.compile(keras.optimizers.Adam(0.01))
    return outcome(model, model.optimizer, x=np.tile(X, (4, 1)), batch_size=4 * ROWS, epochs=8)


def adversarial_by_norm():
    """Takes norms below 1e-6 for larger ones, and gradients are small where there are many rows."""
    return adversarial(lambda gradients: tf.math.l2_normalize(gradients, axis=1))


def adversarial_by_sign():
    return adversarial(tf.sign)


KINDS = {
    "adversarial-by-norm": adversarial_by_norm,
    "adversarial-by-sign": adversarial_by_sign,
    "clipped-gan": clipped_gan,
    "clipped-autoencoder": clipped_autoencoder,
    "guarded-autoencoder": guarded_autoencoder,
    "sharpness-aware": sharpness_aware,
}
