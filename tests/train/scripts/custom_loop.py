"""A custom loop, saved by matex.Checkpoint: asked to stop once, and continued.

With --unsaved nothing saves it.
"""

import os
import signal
import sys

import keras
import numpy as np
import tensorflow as tf

import matex

STEPS, TOLD_AT = 10, 4
UNSAVED = "--unsaved" in sys.argv


def trained(saved: bool):
    """Steps that were done before, and the weights in the end."""
    keras.utils.set_random_seed(3)
    layers = keras.layers
    model = keras.Sequential([keras.Input((6,)), layers.Dense(8, "relu"), layers.Dense(1)])
    model.compile(keras.optimizers.Adam(0.01), "mse")
    model.optimizer.build(model.trainable_variables)
    checkpoint = matex.Checkpoint(model) if saved else None
    first = checkpoint.done if saved else 0

    @tf.function
    def update(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x)[:, 0] - y) ** 2)
        gradients = tape.gradient(loss, model.trainable_variables)
        model.optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))

    for step in range(first, STEPS):
        x = np.random.default_rng(step).normal(size=(32, 6)).astype("float32")
        y = x[:, 0] - x[:, 3]
        if step % 2:
            model.train_on_batch(x, y)
        else:
            update(x, y)
        told = step == TOLD_AT and not first and (saved or UNSAVED)
        if told and matex.rank() == matex.size() - 1:
            os.kill(os.getpid(), signal.SIGUSR1)
        if saved:
            checkpoint.step()
    if saved:
        checkpoint.save()
    return first, model.get_weights()


first, weights = trained(saved=not UNSAVED)
_, wanted = trained(saved=False)
near = [np.allclose(a, b, rtol=1e-4, atol=1e-6) for a, b in zip(weights, wanted, strict=True)]
print(f"continued after {first} steps, same: {all(near)}")
