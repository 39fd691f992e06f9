"""Models in which the result of a row depends on other rows of its batch, of which few show it."""

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from kinds.data import BATCH, ROWS, X, Y, fitted

layers = keras.layers
generator = np.random.default_rng(14)
LENGTHS = generator.integers(2, 12, ROWS)
WORDS = tf.ragged.constant([generator.integers(1, 20, length).tolist() for length in LENGTHS])
TEXTS = np.array([" ".join(f"w{word}" for word in row) for row in WORDS.to_list()])
SOUNDS = X.repeat(80, 1) * generator.choice([0.01, 3.0], (ROWS, 1))


def trained(model, data):
    model.compile(keras.optimizers.SGD(0.5), "mse")
    told = model.evaluate(data, verbose=0)
    predicted = [float(np.abs(model.predict(data, verbose=0)).sum())]
    numbers, variables = fitted(model, data)
    predicted.append(float(np.abs(model.predict(data, verbose=0)).sum()))
    return {**numbers, "told": told, "predicted": predicted}, variables


def batched(x):
    return tf.data.Dataset.from_tensor_slices((x, Y)).batch(BATCH)


def texts_filled_up():
    """Texts that Keras's own layer fills up to the longest of a batch."""
    split = layers.TextVectorization()
    split.adapt(TEXTS)
    table = layers.Embedding(split.vocabulary_size(), 4)
    inputs = keras.Input((), dtype="string")
    hidden = layers.GlobalAveragePooling1D()(table(split(inputs)))
    return trained(keras.Model(inputs, layers.Dense(1)(hidden)), batched(TEXTS))


class Filled(keras.Model):
    """Fills ragged rows up, and looks for their largest values."""

    def __init__(self):
        super().__init__()
        self.table = layers.Embedding(20, 4)
        self.windows, self.head = layers.Conv1D(4, 2), layers.Dense(1)

    def call(self, words):
        filled = words.to_tensor() if isinstance(words, tf.RaggedTensor) else words
        return self.head(ops.max(self.windows(self.table(filled)), 1))


def ragged_filled_up():
    return trained(Filled(), batched(WORDS))


def softmax_over_rows():
    """Rows that Keras's own layers combine, as their options say."""
    inner = [layers.Dense(4), layers.Softmax(axis=0), layers.UnitNormalization(axis=0)]
    return trained(keras.Sequential([keras.Input((6,)), *inner, layers.Dense(1)]), batched(X))


def spectrogram_of_the_loudest():
    """Sounds of which Keras's own layer cuts off what is silent beside the loudest of a batch."""
    spectrogram = layers.MelSpectrogram(64, 32, num_mel_bins=8, sampling_rate=8000)
    inner = [spectrogram, layers.GlobalAveragePooling1D(), layers.Rescaling(0.005)]
    model = keras.Sequential([keras.Input((480,)), *inner, layers.Dense(1)])
    return trained(model, batched(SOUNDS.astype("float32")))


RELATIONS = {
    "largest": lambda rows: rows / ops.max(ops.abs(rows)),
    "first": lambda rows: rows - rows[:1],
    "before": lambda rows: rows - ops.roll(rows, 1, 0),
    "place": lambda rows: rows + ops.cast(ops.arange(ops.shape(rows)[0]), "float32")[:, None],
    "pairs": lambda rows: ops.softmax(rows @ ops.transpose(rows)) @ rows,
    "until": lambda rows: ops.cumsum(rows, 0),
}


def predicted_by_the_batch():
    """Sums of what models predict that relate each row to others."""
    predicted = {}
    for name, relation in RELATIONS.items():
        model = keras.Sequential([keras.Input((6,)), layers.Lambda(relation)])
        predicted[name] = float(np.abs(model.predict(X, batch_size=BATCH, verbose=0)).sum())
    return predicted, []


KINDS = {
    way.__name__.replace("_", "-"): way
    for way in (
        texts_filled_up, ragged_filled_up, softmax_over_rows, spectrogram_of_the_loudest,
        predicted_by_the_batch,
    )
}  # fmt: skip
