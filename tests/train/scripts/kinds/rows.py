"""Batches of sparse and ragged tensors, dictionaries and nested structures."""

import keras
import numpy as np
import tensorflow as tf

from kinds.data import BATCH, ROWS, X, Y, fitted

layers = keras.layers
generator = np.random.default_rng(8)
THIN = X * (generator.random(X.shape) < 0.4).astype("float32")
SPARSE = tf.sparse.from_dense(THIN)
WORDS = tf.ragged.constant(
    [generator.integers(1, 20, 1 + row % 5).tolist() for row in range(ROWS)], dtype=tf.int32
)
OPTIONS = {"batch_size": BATCH, "shuffle": False}


def compiled(model):
    model.compile(keras.optimizers.SGD(0.1), "mse", metrics=["mae"])
    return model


def thin():
    inputs = keras.Input((6,), sparse=True)
    hidden = layers.Dense(8, "tanh")(inputs)
    return compiled(keras.Model(inputs, layers.Dense(1)(layers.Dropout(0.2)(hidden))))


@keras.saving.register_keras_serializable()
class Bag(keras.Model):
    """The mean of what the words of a row stand for, of which rows have different numbers."""

    def __init__(self):
        super().__init__()
        self.table, self.head = layers.Embedding(20, 4), layers.Dense(1)

    def build(self, shape):
        self.table.build((None,))
        self.head.build((None, 4))
        self.built = True

    def call(self, words):
        if not isinstance(words, tf.RaggedTensor):
            return self.head(tf.reduce_mean(self.table(words), 1))
        return self.head(tf.reduce_mean(tf.ragged.map_flat_values(self.table, words), 1))


def trained(model, *data, evaluated=None, **options):
    numbers, variables = fitted(model, *data, **options)
    told = model.evaluate(*(evaluated or data), verbose=0)
    predicted = model.predict((evaluated or data)[0], verbose=0)
    return [numbers, told, np.abs(predicted).sum(0).tolist()], variables


def batches(*arrays):
    return tf.data.Dataset.from_tensor_slices(arrays).batch(BATCH)


def sparse_data():
    return trained(thin(), batches(SPARSE, Y))


def sparse_array():
    return trained(thin(), SPARSE, Y, **OPTIONS)


def sparse_generator():
    def pieces():
        while True:
            for lo in range(0, ROWS, BATCH):
                yield tf.sparse.from_dense(THIN[lo : lo + BATCH]), Y[lo : lo + BATCH]

    return trained(thin(), pieces(), steps_per_epoch=-(-ROWS // BATCH), evaluated=(SPARSE, Y))


def ragged_data():
    return trained(compiled(Bag()), batches(WORDS, Y))


def ragged_array():
    return trained(compiled(Bag()), WORDS, Y, **OPTIONS)


def ragged_masks():
    """Ragged targets and texts, in a step of the script's own."""

    class Tagger(Bag):
        def train_step(self, data):
            words, tags = data
            with tf.GradientTape() as tape:
                values = tf.ragged.map_flat_values(self.table, words)
                gaps = tf.reduce_mean((tf.reduce_sum(values, 2) - tags) ** 2, 1)
                loss = tf.reduce_mean(gaps)
            gradients = tape.gradient(loss, self.table.trainable_variables)
            self.optimizer.apply(gradients, self.table.trainable_variables)
            return {"loss": loss}

    tags = tf.cast(WORDS, tf.float32) / 20
    model = Tagger()
    model.compile(keras.optimizers.SGD(0.1))
    return fitted(model, batches(WORDS, tags))


def sparse_batches():
    """Sparse rows by train_on_batch."""
    model = thin()
    numbers = [
        model.train_on_batch(tf.sparse.from_dense(THIN[lo : lo + BATCH]), Y[lo : lo + BATCH])
        for lo in range(0, ROWS, BATCH)
    ]
    return [list(map(float, told)) for told in numbers], model.variables


def nested():
    one, two, three = (keras.Input((2,), name=name) for name in ("one", "two", "three"))
    outputs = layers.Dense(1)(layers.Concatenate()([one, two, three]))
    model = compiled(keras.Model({"pair": [one, two], "more": {"three": three}}, outputs))
    rows = {"pair": [X[:, :2], X[:, 2:4]], "more": {"three": X[:, 4:]}}
    return trained(model, rows, Y, **OPTIONS)


KINDS = {
    way.__name__.replace("_", "-"): way
    for way in (
        sparse_data, sparse_array, sparse_generator, sparse_batches, ragged_data, ragged_array,
        ragged_masks, nested,
    )
}  # fmt: skip
