"""Sentences of any length as ragged tensors, ragged batches, and one model that takes them padded."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers

keras.utils.set_random_seed(79)
rng = np.random.default_rng(79)

LETTERS = list("abcdefgh")
words = ["".join(rng.choice(LETTERS, rng.integers(2, 9))) for _ in range(256)]
labels = np.array([word.count("a") > word.count("b") for word in words], "float32")

letters = tf.strings.unicode_split(tf.constant(words), "UTF-8")
lookup = layers.StringLookup(vocabulary=LETTERS, mask_token="")
ids = lookup(letters)
print("ragged", ids.shape, "lengths", ids.row_lengths().numpy()[:5])

rows = tf.data.Dataset.from_tensor_slices((ids, labels))
train = (
    rows.take(192).ragged_batch(32) if hasattr(rows, "ragged_batch") else rows.take(192).batch(32)
)
train = train.map(lambda batch, label: (batch.to_tensor(default_value=0), label))
held_out = rows.skip(192).batch(32).map(lambda batch, label: (batch.to_tensor(), label))

model = keras.Sequential(
    [
        layers.Embedding(len(LETTERS) + 2, 6, mask_zero=True),
        layers.GRU(10),
        layers.Dense(1, activation="sigmoid"),
    ]
)
model.compile(keras.optimizers.SGD(0.3, momentum=0.8), "binary_crossentropy", metrics=["accuracy"])
history = model.fit(train, validation_data=held_out, epochs=4, verbose=0)
for name in ("loss", "val_loss"):
    print(name, np.round(history.history[name], 3))

padded = tf.data.Dataset.from_generator(
    lambda: ((np.array(row), label) for row, label in zip(ids.to_list(), labels)),
    output_signature=(tf.TensorSpec((None,), tf.int64), tf.TensorSpec((), tf.float32)),
).padded_batch(64, padded_shapes=([10], []))
more = model.fit(padded, epochs=1, verbose=0)
print("padded to ten", np.round(more.history["loss"], 3))
print("right", round(model.evaluate(held_out, verbose=0)[1], 3))
print("mean of a ragged row", float(tf.reduce_mean(tf.cast(ids[0], tf.float32))) > 0)
