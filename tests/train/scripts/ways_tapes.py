"""Train steps that make their updates by nonlinear functions of the gradients."""

import keras
import tensorflow as tf
from keras import ops
from ways_updates import WIDTH, Autoencoder, Gan, compiled, dense, outcome


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


KINDS = {
    "clipped-gan": clipped_gan,
    "clipped-autoencoder": clipped_autoencoder,
    "guarded-autoencoder": guarded_autoencoder,
    "sharpness-aware": sharpness_aware,
}
