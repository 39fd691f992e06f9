"""A script with two fits, callbacks that decide, and work outside of fits; it tells what it saw.

The first fit is on arrays, 30 steps, the second on tf.data, 30 more. Each rank that comes to the
end writes what its fits returned and what it evaluates and predicts into the directory given.
"""

import json
import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

import matex

rng = np.random.default_rng(5)
x = rng.normal(size=(600, 8)).astype("float32")
y = (x[:, :1] * x[:, 1:2] > 0).astype("float32")
keras.utils.set_random_seed(2)
model = keras.Sequential(
    [
        keras.Input((8,)),
        keras.layers.Dense(16, "relu"),
        keras.layers.Dense(1, "sigmoid"),
    ]
)
model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
stream = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(600, seed=3).batch(60)
held_out = tf.data.Dataset.from_tensor_slices((x[:150], y[:150])).batch(50)
told = {}
for number in range(2):
    data = {"x": x, "y": y, "batch_size": 60, "validation_data": (x[:150], y[:150])}
    history = model.fit(
        **({"x": stream, "validation_data": held_out} if number else data),
        epochs=3,
        verbose=0,
        callbacks=[
            keras.callbacks.EarlyStopping("val_loss", patience=5),
            keras.callbacks.LearningRateScheduler(lambda epoch, rate: 0.9 * rate),
        ],
    )
    told[f"fit-{number}"] = {"epoch": history.epoch, "logs": history.history}
    told[f"evaluated-{number}"] = model.evaluate(x, y, verbose=0)
told["predicted"] = float(model.predict(x, verbose=0).sum())
path = Path(sys.argv[1]) / f"told-{matex.rank()}.json"
path.write_text(json.dumps(told))
