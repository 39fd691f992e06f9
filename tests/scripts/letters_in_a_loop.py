"""A model that writes letter by letter, trained in loops of one's own: eager first, then as a graph."""

import os
import time

import keras
import numpy as np
import tensorflow as tf
from keras import layers

keras.utils.set_random_seed(163)
rng = np.random.default_rng(163)

text = " ".join(rng.choice(["to", "be", "or", "not", "that", "is", "the", "question"], 600))
letters = sorted(set(text))
ids_from_letters = layers.StringLookup(vocabulary=letters, mask_token=None)
letters_from_ids = layers.StringLookup(vocabulary=letters, invert=True, mask_token=None)
all_ids = ids_from_letters(tf.strings.unicode_split(text, "UTF-8"))
print(len(text), "letters,", len(letters), "of them different")

LENGTH, BATCH = 20, 16
sequences = tf.data.Dataset.from_tensor_slices(all_ids).batch(LENGTH + 1, drop_remainder=True)
dataset = sequences.map(lambda s: (s[:-1], s[1:])).shuffle(200, seed=6)
dataset = dataset.batch(BATCH, drop_remainder=True).prefetch(tf.data.AUTOTUNE)


class Writer(keras.Model):
    def __init__(self, letters, width=12, units=24):
        super().__init__()
        self.embedding = layers.Embedding(letters, width)
        self.gru = layers.GRU(units, return_sequences=True, return_state=True)
        self.dense = layers.Dense(letters)

    def call(self, inputs, states=None, return_state=False):
        x, states = self.gru(self.embedding(inputs), initial_state=states)
        x = self.dense(x)
        return (x, states) if return_state else x


model = Writer(len(ids_from_letters.get_vocabulary()))
loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
optimizer = keras.optimizers.Adam(0.01)
mean = keras.metrics.Mean()


def train_step(inputs, labels):
    with tf.GradientTape() as tape:
        loss = loss_of(labels, model(inputs))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


start = time.time()
for epoch, step in enumerate([train_step, tf.function(train_step), tf.function(train_step)]):
    mean.reset_state()
    for number, (inputs, labels) in enumerate(dataset):
        mean.update_state(step(inputs, labels))
    print(f"epoch {epoch}: loss {float(mean.result()):.3f} after {number + 1} batches")
    model.save_weights(os.path.join(".", f"epoch_{epoch}.weights.h5"))
print("took less than ten minutes:", time.time() - start < 600)

states, letter, written = None, tf.constant([["t"]]), ["t"]
for _ in range(12):
    logits, states = model(ids_from_letters(letter), states=states, return_state=True)
    letter = letters_from_ids(tf.argmax(logits[:, -1:], -1))
    written.append(letter[0, 0].numpy().decode())
print("written", len("".join(written)), set("".join(written)) <= set(letters))
