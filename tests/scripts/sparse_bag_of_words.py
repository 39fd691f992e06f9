"""Bags of words as tf.SparseTensor, into a Dense layer and through a sparse Input."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers

keras.utils.set_random_seed(73)
rng = np.random.default_rng(73)
WORDS, ROWS = 50, 240

counts = rng.poisson(0.08, (ROWS, WORDS)).astype("float32")
labels = (counts[:, :10].sum(1) > counts[:, 10:20].sum(1)).astype("float32")[:, None]
bags = tf.sparse.from_dense(counts)
print("filled", f"{bags.values.shape[0] / counts.size:.2f}", "of", bags.dense_shape.numpy())

inputs = keras.Input((WORDS,), sparse=True)
x = layers.Dense(12, activation="relu")(inputs)
model = keras.Model(inputs, layers.Dense(1, activation="sigmoid")(x))
model.compile(keras.optimizers.SGD(0.5), "binary_crossentropy", metrics=["accuracy"])

dataset = tf.data.Dataset.from_tensor_slices((bags, labels)).batch(32)
train, held_out = dataset.take(6), dataset.skip(6)
history = model.fit(train, validation_data=held_out, epochs=4, verbose=0)
print({name: np.round(values, 3).tolist() for name, values in sorted(history.history.items())})
print("held out", np.round(model.evaluate(held_out, verbose=0), 3))

lookup = layers.StringLookup(
    vocabulary=["red", "green", "blue"], output_mode="multi_hot", sparse=True
)
colours = rng.choice(["red", "green", "blue", "grey"], (ROWS, 2))
encoded = lookup(tf.constant(colours))
print("encoded", type(encoded).__name__, tf.sparse.to_dense(encoded).numpy()[:2].tolist())
target = (colours == "red").any(axis=1).astype("float32")
small = keras.Sequential([keras.Input((4,), sparse=True), layers.Dense(1, activation="sigmoid")])
small.compile(keras.optimizers.SGD(1.0), "binary_crossentropy")
mapped = (
    tf.data.Dataset.from_tensor_slices((colours, target)).batch(48).map(lambda c, t: (lookup(c), t))
)
again = small.fit(mapped, epochs=3, verbose=0)
print("from strings", np.round(again.history["loss"], 3))
print("dense too", np.round(model.predict(counts[:3], verbose=0)[:, 0], 2))
