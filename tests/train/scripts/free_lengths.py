"""A plain Keras script for the tests: sequences of free lengths, which are looked up in tables.

Rows are in the order of their lengths, so that in most fits a batch is longer than all before.
"""

import sys

import keras
import numpy as np
import tensorflow as tf

layers = keras.layers
keras.utils.set_random_seed(1)
generator = np.random.default_rng(0)
lengths = np.sort(generator.integers(9, 40, 120))
rows = [generator.integers(1, 50, length) for length in lengths]
y = np.array([row.mean() > 25 for row in rows], "float32")


def padded(values, size=16):
    """Batches of *values*, each as long as its longest row."""
    spec = tf.TensorSpec((None,), tf.int32)
    words = tf.data.Dataset.from_generator(lambda: iter(values), output_signature=spec)
    words = words.apply(tf.data.experimental.assert_cardinality(len(values)))
    return tf.data.Dataset.zip(words, tf.data.Dataset.from_tensor_slices(y)).padded_batch(size)


def train(name, inputs, hidden, data, optimizer, **more):
    model = keras.Model(inputs, layers.Dense(1, "sigmoid")(hidden))
    model.compile(optimizer, "binary_crossentropy", metrics=["accuracy"])
    tell(name, model, model.fit(data, epochs=2, shuffle=False, verbose=0, **more))


def tell(name, model, history):
    tell_losses(name, model, [loss for values in history.history.values() for loss in values])


def tell_losses(name, model, losses):
    norms = [float(np.abs(weight.numpy()).sum()) for weight in model.trainable_variables]
    print(name, *(f"{number:.6f}" for number in (*map(float, losses), *norms)), flush=True)


def classified():
    """Rows and their labels, in words of a free number."""
    tokens = keras.Input((None,), dtype="int32")
    vectors = layers.Embedding(50, 8, mask_zero=True, name="words")(tokens)
    return tokens, layers.GlobalAveragePooling1D()(layers.Dropout(0.2, seed=3)(vectors))


def by_adam():
    train("adam", *classified(), padded(rows), keras.optimizers.Adam(0.02))


def again():
    """Three fits of one model, of which the second has shorter rows than the first."""
    tokens, mean = classified()
    model = keras.Model(tokens, layers.Dense(1, "sigmoid")(mean))
    model.compile(keras.optimizers.RMSprop(0.01), "binary_crossentropy")
    for data in (padded(rows[:60]), padded(rows[:30]), padded(rows)):
        tell("again", model, model.fit(data, epochs=1, verbose=0))


def two_looks():
    """Two look-ups of one table, one of them of words that lie beside each other."""
    tokens = keras.Input((None,), dtype="int32")
    table = layers.Embedding(50, 8)
    pair = [layers.GlobalMaxPooling1D()(table(part)) for part in (tokens, tokens[:, 1:])]
    optimizer = keras.optimizers.Adam(0.02, clipnorm=0.5)
    train("two-looks", tokens, layers.Concatenate()(pair), padded(rows), optimizer)


def characters():
    """Words and their characters: two axes of free sizes."""
    words, letters = keras.Input((None,), dtype="int32"), keras.Input((None, None), dtype="int32")
    of_letters = layers.Embedding(30, 4)(letters)
    of_letters = keras.ops.max(of_letters, axis=2)
    both = layers.Concatenate()([layers.Embedding(50, 8)(words), of_letters])
    hidden = layers.SimpleRNN(4)(both)

    def batches():
        for start in range(0, 64, 16):
            part = rows[start : start + 16]
            longest = max(map(len, part))
            tokens = np.stack([np.pad(row, (0, longest - len(row))) for row in part])
            spelled = np.stack([tokens % (7 + k) for k in range(2 + start // 16)], axis=2)
            yield (tokens.astype("int32"), spelled.astype("int32")), y[start : start + 16]

    specs = (
        (tf.TensorSpec((None, None), tf.int32), tf.TensorSpec((None, None, None), tf.int32)),
        tf.TensorSpec((None,), tf.float32),
    )
    data = tf.data.Dataset.from_generator(batches, output_signature=specs)
    data = data.apply(tf.data.experimental.assert_cardinality(4))
    train("characters", [words, letters], hidden, data, keras.optimizers.Nadam(0.01))


def tags():
    """A label for each word, by a generator of Python whose batches grow."""

    def batches():
        while True:
            for start, size in ((0, 6), (6, 14), (20, 20), (40, 50)):
                part = rows[start : start + size]
                longest = max(map(len, part))
                tokens = np.stack([np.pad(row, (0, longest - len(row))) for row in part])
                yield tokens, (tokens % 3)[..., None]

    tokens = keras.Input((None,), dtype="int32")
    hidden = layers.Embedding(50, 8, mask_zero=True)(tokens)
    hidden = layers.SimpleRNN(6, return_sequences=True)(hidden)
    model = keras.Model(tokens, layers.Dense(3, "softmax")(hidden))
    model.compile(keras.optimizers.Adam(0.02), "sparse_categorical_crossentropy")
    tell("tags", model, model.fit(batches(), steps_per_epoch=4, epochs=2, verbose=0))


class Rivals(keras.Model):
    """Two models, each with an optimizer and an update of its own in a step."""

    def __init__(self):
        super().__init__()
        self.parts = [keras.Model(*classified()) for _ in range(2)]
        self.optimizers = [keras.optimizers.Adam(0.01), keras.optimizers.RMSprop(0.01)]

    def train_step(self, data):
        tokens, wanted = data
        losses = []
        for part, optimizer in zip(self.parts, self.optimizers, strict=True):
            with tf.GradientTape() as tape:
                rival = self.parts[losses == []](tokens, training=False)
                means = tf.reduce_mean(part(tokens, training=False) * (1 + 0.1 * rival), axis=1)
                loss = tf.reduce_mean((means - wanted) ** 2)
            optimizer.apply(tape.gradient(loss, part.trainable_variables), part.trainable_variables)
            losses.append(loss)
        return {"loss": losses[0], "other": losses[1]}


def rivals():
    model = Rivals()
    model.compile()
    tell("rivals", model, model.fit(padded(rows), epochs=2, verbose=0))


def loop():
    """A custom loop, with a batch of another length in each of its steps."""
    model = keras.Model(*classified())
    optimizer = keras.optimizers.Adam(0.02)

    @tf.function
    def step(tokens, wanted):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((tf.reduce_mean(model(tokens, training=True), 1) - wanted) ** 2)
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        return loss

    tell_losses("loop", model, [step(*batch) for _ in range(2) for batch in padded(rows, 6)])


def batches():
    """Calls of train_on_batch, with a batch of another length in each."""
    tokens, mean = classified()
    model = keras.Model(tokens, layers.Dense(1, "sigmoid")(mean))
    model.compile(keras.optimizers.Adam(0.02), "binary_crossentropy")
    tell_losses("batches", model, [model.train_on_batch(*batch) for batch in padded(rows, 8)])


def texts():
    """Texts that the model itself splits, into as many words as the longest of a rank's own has."""
    split = layers.TextVectorization(40)
    sentences = [" ".join(map(str, row)) for row in rows]
    split.adapt(sentences)
    text = keras.Input((), dtype="string")
    vectors = layers.Embedding(40, 8, mask_zero=True, name="texts")(split(text))
    mean = layers.GlobalAveragePooling1D()(vectors)
    train("texts", text, mean, tf.data.Dataset.from_tensor_slices((sentences, y)).batch(16), "adam")


WAYS = {
    "adam": by_adam,
    "again": again,
    "two-looks": two_looks,
    "characters": characters,
    "tags": tags,
    "rivals": rivals,
    "loop": loop,
    "batches": batches,
    "texts": texts,
}
for way in sys.argv[1:] or WAYS:
    WAYS[way]()
