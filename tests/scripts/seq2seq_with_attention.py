"""Reverse a string of digits letter by letter: encoder, decoder, attention, teacher forcing."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers

keras.utils.set_random_seed(51)
rng = np.random.default_rng(51)
START, END, LETTERS, LENGTH = 11, 12, 13, 5

source = rng.integers(1, 11, (400, LENGTH))
lengths = rng.integers(3, LENGTH + 1, 400)
target = np.zeros((400, LENGTH + 2), int)
for row, length in enumerate(lengths):
    source[row, length:] = 0
    target[row, : length + 2] = [START, *source[row, :length][::-1], END]


def masked_loss(labels, predictions):
    labels = tf.cast(labels, tf.int32)
    loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=predictions)
    mask = tf.cast(labels != 0, loss.dtype)
    return tf.reduce_sum(loss * mask) / tf.reduce_sum(mask)


def masked_accuracy(labels, predictions):
    labels = tf.cast(labels, tf.int64)
    match = tf.cast(labels == tf.argmax(predictions, axis=-1), tf.float32)
    mask = tf.cast(labels != 0, tf.float32)
    return tf.reduce_sum(match * mask) / tf.reduce_sum(mask)


class Translator(keras.Model):
    def __init__(self, width=24):
        super().__init__()
        self.embed_in = layers.Embedding(LETTERS, width, mask_zero=True)
        self.encode = layers.Bidirectional(layers.GRU(width // 2, return_sequences=True))
        self.embed_out = layers.Embedding(LETTERS, width)
        self.decode = layers.GRU(width, return_sequences=True)
        self.attend = layers.Attention()
        self.head = layers.Dense(LETTERS)

    def call(self, inputs):
        context, letters = inputs
        memory = self.encode(self.embed_in(context))
        state = self.decode(self.embed_out(letters))
        return self.head(tf.concat([state, self.attend([state, memory])], axis=-1))


def prepare(context, letters):
    return (context, letters[:, :-1]), letters[:, 1:]


def batches(part):
    pairs = tf.data.Dataset.from_tensor_slices((source[part], target[part]))
    return pairs.batch(40).map(prepare, num_parallel_calls=tf.data.AUTOTUNE)


model = Translator()
model.compile(
    optimizer=keras.optimizers.SGD(0.2, momentum=0.9), loss=masked_loss, metrics=[masked_accuracy]
)
history = model.fit(
    batches(slice(0, 320)).repeat(),
    steps_per_epoch=8,
    epochs=4,
    validation_data=batches(slice(320, 400)),
    validation_steps=2,
    callbacks=[keras.callbacks.EarlyStopping(patience=3)],
    verbose=0,
)
print("loss", np.round(history.history["loss"], 2))
print("val_loss", np.round(history.history["val_loss"], 2))


def translate(context):
    letters = tf.fill((len(context), 1), START)
    for _ in range(LENGTH):
        scores = model((context, letters), training=False)[:, -1]
        letters = tf.concat([letters, tf.argmax(scores, -1, output_type=tf.int32)[:, None]], axis=1)
    return letters.numpy()[:, 1:]


print("translated", translate(tf.constant(source[320:324])).shape)
model.export("translator")
