"""A script that comes from Horovod: ``horovod.py FOLDER [WRONG]``.

Each way trains the same line on the same batches. WRONG does what must be refused, too.
"""

import json
import sys
from pathlib import Path

import horovod_refused
import keras
import numpy as np
import tensorflow as tf
from horovod_data import BATCH, EPOCHS, RATE, X, Y

import matex as hvd


def network():
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1, use_bias=False)])
    model.set_weights([np.zeros((3, 1), np.float32)])
    return model


def batches():
    return tf.data.Dataset.from_tensor_slices((X, Y)).batch(BATCH)


def tape_and_optimizer():
    model, optimizer = network(), hvd.DistributedOptimizer(keras.optimizers.SGD(RATE), op="average")

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x) - y) ** 2)
        tape = hvd.DistributedGradientTape(tape, compression=None)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))

    for _ in range(EPOCHS):
        for x, y in batches():
            step(x, y)
    return model


def tape_alone():
    model = network()
    (weights,) = model.trainable_variables
    for _ in range(EPOCHS):
        for x, y in batches():
            with hvd.DistributedGradientTape(tf.GradientTape()) as tape:
                tape.watch(weights.value)
                loss = tf.reduce_mean((model(x) - y) ** 2)
            weights.assign_sub(RATE * tape.gradient(loss, weights))
    return model


def fit():
    model = network()
    model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(RATE)), "mse")
    model.fit(X, Y, batch_size=BATCH, epochs=EPOCHS, shuffle=False, verbose=0)
    return model


class OwnStep(keras.Sequential):
    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(y=y, y_pred=self(x))
        tape = hvd.DistributedGradientTape(tape)
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        return {"loss": loss}


def own_train_step():
    model = OwnStep([keras.Input((3,)), keras.layers.Dense(1, use_bias=False)])
    model.set_weights([np.zeros((3, 1), np.float32)])
    model.compile(keras.optimizers.SGD(RATE), "mse")
    model.fit(batches(), epochs=EPOCHS, verbose=0)
    return model


found = {
    way.__name__: way().get_weights()[0].ravel().tolist()
    for way in (tape_and_optimizer, tape_alone, fit, own_train_step)
}
if "WRONG" in sys.argv:
    found["refused"] = horovod_refused.sayings(network)
Path(sys.argv[1], f"{hvd.rank()}.json").write_text(json.dumps(found))
