"""A plain Keras script for the tests: tables that are looked into in the ways of models."""

import keras
import numpy as np
import tensorflow as tf

layers = keras.layers
keras.utils.set_random_seed(1)
generator = np.random.default_rng(0)
x = generator.integers(0, 50, (300, 20))
y = (x.sum(1) > 500).astype("float32")


class Positions(layers.Layer):
    """Tokens and their places: two tables, of which one is looked into alike for every row."""

    def __init__(self):
        super().__init__()
        self.tokens = layers.Embedding(50, 8)
        self.places = layers.Embedding(20, 8)

    def call(self, tokens):
        return self.tokens(tokens) + self.places(keras.ops.arange(keras.ops.shape(tokens)[-1]))


def train(inputs, outputs, data, optimizer):
    model = keras.Model(inputs, layers.Dense(1, "sigmoid")(outputs))
    model.compile(optimizer, "binary_crossentropy")
    if isinstance(data, tf.data.Dataset):
        history = model.fit(data, epochs=3, verbose=0)
    else:
        history = model.fit(data, y, epochs=3, batch_size=32, shuffle=False, verbose=0)
    print("losses", *(round(loss, 5) for loss in history.history["loss"]), flush=True)


def words():
    """A small model of words, built."""
    parts = [layers.Embedding(50, 8), layers.GlobalAveragePooling1D(), layers.Dense(1)]
    return keras.Sequential([keras.Input((20,), dtype="int32"), *parts])


def loop(model, optimizer, clip=False):
    """Ten steps of a function of the script's own."""

    @tf.function
    def step(rows, wanted):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(rows)[:, 0] - wanted) ** 2)
        gradients = tape.gradient(loss, model.trainable_variables)
        if clip:
            gradients, _ = tf.clip_by_global_norm(gradients, 0.05)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(30)
    print("losses", *(round(float(step(*batch)), 5) for batch in data), flush=True)


class Rivals(keras.Model):
    """Two models, each with an optimizer and an update of its own in a step."""

    def __init__(self):
        super().__init__()
        self.models = [words(), words()]
        self.optimizers = [keras.optimizers.Adam(0.01), keras.optimizers.RMSprop(0.01)]

    def train_step(self, data):
        rows, wanted = data
        losses = []
        for model, optimizer in zip(self.models, self.optimizers, strict=True):
            with tf.GradientTape() as tape:
                rival = self.models[losses == []](rows)
                loss = tf.reduce_mean((model(rows)[:, 0] - wanted) ** 2 + 0.1 * model(rows) * rival)
            weights = model.trainable_variables
            optimizer.apply(tape.gradient(loss, weights), weights)
            losses.append(loss)
        return {"loss": losses[0], "other": losses[1]}


class Masked(keras.Model):
    """A model of words, some of which each step hides, at a time that it draws for each row."""

    def __init__(self):
        super().__init__()
        self.words, self.times = layers.Embedding(50, 8), layers.Embedding(20, 8)
        self.guess = layers.Dense(50)
        self.seeds = keras.random.SeedGenerator(5)

    def train_step(self, rows):
        drawn = keras.random.uniform(keras.ops.shape(rows), seed=self.seeds)
        times = tf.random.uniform((tf.shape(rows)[0],), 0, 20, tf.int32)
        hidden = tf.where(drawn < 0.3, tf.constant(1, rows.dtype), rows)
        with tf.GradientTape() as tape:
            guessed = self.guess(self.words(hidden) + self.times(times)[:, None])
            loss = tf.reduce_mean(keras.losses.SparseCategoricalCrossentropy(True)(rows, guessed))
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply(gradients, self.trainable_variables)
        return {"entropy": loss}


loop(words(), keras.optimizers.Adam(0.01))
loop(words(), keras.optimizers.Adam(0.01), clip=True)
model = words()
model.compile("adam", "mse")
sizes = zip((0, 20, 60, 90), (20, 60, 90, 150), strict=True)  # also larger than the first
print("losses", *(round(float(model.train_on_batch(x[a:b], y[a:b])), 5) for a, b in sizes))
rivals = Rivals()
rivals.compile()
history = rivals.fit(x, y, epochs=2, batch_size=32, shuffle=False, verbose=0).history
print("losses", *(round(loss, 5) for loss in history["loss"] + history["other"]), flush=True)

masked = Masked()
masked.compile(keras.optimizers.Adam(0.01))
history = masked.fit(x, epochs=2, batch_size=32, shuffle=False, verbose=0).history
print("losses", *(round(loss, 5) for loss in history["entropy"]), flush=True)

tokens = keras.Input((20,), dtype="int32")
mean = layers.GlobalAveragePooling1D()(layers.Embedding(50, 8)(tokens))
train(tokens, mean, x, "adam")
last = layers.LSTM(4)(layers.Embedding(50, 8)(tokens))
train(tokens, last, x, keras.optimizers.RMSprop(0.01))
one, some = keras.Input((), dtype="int32"), keras.Input((3,), dtype="int32")
table = layers.Embedding(50, 8)
both = layers.Concatenate()([table(one), layers.Flatten()(table(some))])
optimizer = keras.optimizers.Adam(0.01, clipnorm=1.0)
train([one, some], both, [x[:, 0], x[:, 1:4]], optimizer)
hidden = Positions()(tokens)
hidden = hidden + layers.MultiHeadAttention(2, 4)(hidden, hidden)
train(tokens, layers.Flatten()(hidden), x, "adam")
pairs = tf.data.Dataset.from_tensor_slices((x, y)).map(lambda row, label: (row + 1, label))
large = layers.GlobalAveragePooling1D()(layers.Embedding(5_000, 8)(tokens))
train(tokens, large, pairs.batch(32).prefetch(2), keras.optimizers.Adam(0.02))
cached = tf.data.Dataset.from_tensor_slices((x, y)).batch(32).cache().prefetch(2)
held = layers.GlobalAveragePooling1D()(layers.Embedding(50, 8)(tokens))
train(tokens, held, cached, "adam")
for places in (layers.Discretization([10, 20, 30]), layers.IntegerLookup(vocabulary=[1, 2, 3])):
    few = layers.Flatten()(layers.Embedding(5, 8)(places(tokens)))
    train(tokens, few, x, "adam")
texts = [" ".join(f"Word{number}" for number in row[: 1 + row[0] % 9]) for row in x]
split = layers.TextVectorization(40, output_sequence_length=6)
split.adapt(texts)
of_texts = layers.Flatten()(layers.Embedding(40, 8)(split(text := keras.Input((), dtype="string"))))
numbered = tf.data.Dataset.from_tensor_slices((texts, y)).batch(32)
train(text, of_texts, numbered, keras.optimizers.Adam(0.02))
free = keras.Input((None,), dtype="int32")  # as long as the longest row of each batch
words = layers.GlobalAveragePooling1D()(layers.Embedding(50, 8, name="words")(free))
model = keras.Model(free, layers.Dense(1, "sigmoid")(words))
model.compile("adam", "binary_crossentropy")
rows = tf.data.Dataset.from_tensor_slices((x, y)).padded_batch(32, ([None], []))
model.fit(rows, epochs=1, verbose=0)
