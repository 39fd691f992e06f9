"""Losses that are no means over rows: masks, sums, means with weights, several of them at once."""

import keras
import numpy as np
import tensorflow as tf

from kinds.data import BATCH, ROWS, W, X, Y, generator

STEPS, WORDS, TAGS = 7, 20, 4
LENGTHS = generator.integers(1, STEPS + 1, ROWS)
TEXT = generator.integers(1, WORDS, (ROWS, STEPS)).astype("int32")
TEXT[np.arange(STEPS) >= LENGTHS[:, None]] = 0
TEXT[: BATCH // 2] = 0  # of two or three ranks the first has nothing but padding in the first batch
LABELS = (TEXT % TAGS).astype("int32")
OTHER = np.roll(TEXT, 1, axis=1)
SPARSE = W * (np.arange(ROWS) % BATCH >= BATCH // 2)  # the first rank has no weight
BY_WORD = generator.uniform(0.5, 2, (ROWS, STEPS)).astype("float32")
FITTING = {"batch_size": BATCH, "shuffle": False, "verbose": 0}

layers = keras.layers


def embedded(inputs):
    return layers.Embedding(WORDS, 6, mask_zero=True)(inputs)


def attending(words):
    """Mask and all, and traced in a third of the time that a recurrent layer takes."""
    return layers.MultiHeadAttention(2, 3)(words, words)


def tagger(reader=attending):
    inputs = keras.Input((None,), dtype="int32")
    hidden = reader(embedded(inputs))
    return keras.Model(inputs, layers.Dense(TAGS, "softmax", kernel_regularizer="l2")(hidden))


def network():
    hidden = layers.Dense(8, "tanh", activity_regularizer="l2")
    return keras.Sequential([keras.Input((6,)), hidden, layers.Dense(1, "sigmoid")])


def result(history, model):
    values = [variable.numpy().tolist() for variable in model.variables]
    return [history, values], [*model.variables, *model.optimizer.variables]


def trained(model, *data, loss, metrics=None, rate=0.1, epochs=2, compiling=(), **options):
    optimizer = keras.optimizers.SGD(rate, momentum=0.5)
    model.compile(optimizer, loss, metrics=metrics, **dict(compiling))
    history = model.fit(*data, epochs=epochs, **FITTING, **options).history
    return result(history, model)


def tags():
    loss = "sparse_categorical_crossentropy"
    data = {"validation_data": (TEXT, LABELS)}
    model = tagger(layers.Bidirectional(layers.LSTM(5, return_sequences=True)))
    return trained(model, TEXT, LABELS, loss=loss, metrics=["accuracy"], **data)


def tags_of_padded_batches():
    data = tf.data.Dataset.from_tensor_slices((TEXT, LABELS, LENGTHS))
    data = data.map(lambda x, y, n: (x[:n], y[:n])).padded_batch(BATCH)
    model = tagger(layers.GRU(5, return_sequences=True))
    model.compile("sgd", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return result(model.fit(data, epochs=2, verbose=0).history, model)


def tags_with_weights():
    loss = keras.losses.SparseCategoricalCrossentropy(reduction="mean_with_sample_weight")
    compiling = {"weighted_metrics": ["accuracy"]}
    return trained(tagger(), TEXT, LABELS, loss=loss, sample_weight=BY_WORD, compiling=compiling)


def tags_with_weights_of_words():
    loss = "sparse_categorical_crossentropy"
    return trained(tagger(), TEXT, LABELS, loss=loss, sample_weight=BY_WORD, metrics=["accuracy"])


def tags_summed():
    loss = keras.losses.SparseCategoricalCrossentropy(reduction="sum")
    return trained(tagger(), TEXT, LABELS, loss=loss, rate=0.002)


def words_ignored():
    """Labels are brought to the shape of what a network of matrices gives, for any length."""
    inputs = keras.Input((None,), dtype="int32")
    words = layers.Embedding(WORDS, 6)(inputs)
    words = layers.Add()([words, layers.MultiHeadAttention(2, 3)(words, words)])
    model = keras.Model(inputs, layers.Dense(TAGS)(layers.LayerNormalization()(words)))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=0)
    return trained(model, TEXT, LABELS, loss=loss, metrics=["accuracy"])


def pixels_ignored():
    pictures = np.repeat(X[:, :4].reshape(-1, 2, 2, 1), 4, axis=1).repeat(4, axis=2)
    classes = (abs(pictures[..., 0]) * 10).astype("int32") % 3
    inputs = keras.Input((8, 8, 1))
    hidden = layers.MaxPooling2D()(layers.Conv2D(4, 3, padding="same", activation="relu")(inputs))
    model = keras.Model(inputs, layers.Conv2DTranspose(3, 3, strides=2, padding="same")(hidden))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=2)
    return trained(model, pictures, classes, loss=loss)


def tags_compiled():
    loss = "sparse_categorical_crossentropy"
    inputs = keras.Input((STEPS,), dtype="int32")
    hidden = layers.Dense(TAGS, "softmax")(layers.Dense(6, "tanh")(embedded(inputs)))
    model = keras.Model(inputs, hidden)
    return trained(model, TEXT, LABELS, loss=loss, compiling={"jit_compile": True})


def own_loss(labels, predicted):
    return tf.square(tf.cast(labels, predicted.dtype) - predicted[..., 0])


def tags_by_own_loss():
    return trained(tagger(), TEXT, LABELS, loss=own_loss, metrics=["accuracy"])


def translation():
    source, target = (keras.Input((STEPS,), dtype="int32") for _ in range(2))
    coded, *state = layers.LSTM(6, return_sequences=True, return_state=True)(embedded(source))
    decoded = layers.LSTM(6, return_sequences=True)(embedded(target), initial_state=state)
    attended = layers.MultiHeadAttention(2, 3)(decoded, coded)
    # Its mask is of the shape of what a loop returns, which TensorFlow does not infer.
    hidden = layers.LayerNormalization()(layers.Concatenate()([decoded, attended]))
    model = keras.Model([source, target], layers.Dense(WORDS)(layers.Dropout(0.0)(hidden)))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    return trained(model, (OTHER, TEXT), TEXT, loss=loss, metrics=["accuracy"])


def several_outputs():
    inputs = keras.Input((STEPS,), dtype="int32", name="text")
    hidden = layers.LSTM(5, return_sequences=True)(embedded(inputs))
    last = layers.SimpleRNN(3)(hidden)
    outputs = {
        "tags": layers.Dense(TAGS, "softmax", name="tags")(hidden),
        "sums": layers.Dense(1, name="sums")(hidden),
        "kind": layers.Dense(1, "sigmoid", name="kind")(last),
        "mean": layers.Dense(1, name="mean")(last),
    }
    losses = {
        "tags": "sparse_categorical_crossentropy",
        "sums": keras.losses.MeanSquaredError(reduction="sum"),
        "kind": keras.losses.BinaryCrossentropy(reduction="mean_with_sample_weight"),
        "mean": "mse",
    }
    weights = {"tags": 1.0, "sums": 0.01, "kind": 0.5, "mean": 2.0}
    metrics = {"tags": ["accuracy"], "kind": [keras.metrics.AUC(name="auc")], "mean": ["mae"]}
    targets = {"tags": LABELS, "sums": LABELS[..., None], "kind": Y, "mean": X[:, 0]}
    told = {"tags": BY_WORD, "sums": BY_WORD, "kind": SPARSE, "mean": W}
    return trained(
        keras.Model(inputs, outputs), TEXT, targets, loss=losses, metrics=metrics,
        sample_weight=told, rate=0.05, compiling={"loss_weights": weights},
    )  # fmt: skip


def sums():
    loss = keras.losses.BinaryCrossentropy(reduction="sum")
    data = {"validation_data": (X, Y)}
    return trained(network(), X, Y, loss=loss, metrics=["accuracy"], rate=0.01, **data)


def sums_by_class():
    loss = keras.losses.BinaryCrossentropy(reduction="sum")
    return trained(network(), X, Y, loss=loss, rate=0.01, class_weight={0: 0.5, 1: 3.0})


def weighted_means():
    loss = keras.losses.BinaryCrossentropy(reduction="mean_with_sample_weight")
    data = {"validation_data": (X, Y, W)}
    return trained(network(), X, Y, loss=loss, sample_weight=SPARSE, **data)


def weighted_means_by_class():
    loss = keras.losses.BinaryCrossentropy(reduction="mean_with_sample_weight")
    return trained(network(), X, Y, loss=loss, class_weight={0: 0.5, 1: 3.0})


class OwnLoss(keras.Model):
    """A model whose loss is two of Keras's, called by itself."""

    tagging = keras.losses.SparseCategoricalCrossentropy()
    summing = keras.losses.MeanSquaredError(reduction="sum")

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        return self.tagging(y, y_pred) + 0.01 * self.summing(y[..., None], y_pred[..., :1])


def computed_by_itself():
    inner = tagger()
    model = OwnLoss(inner.inputs, inner.outputs[0])
    return trained(model, TEXT, LABELS, loss=None, rate=0.05)


def nested():
    inputs = keras.Input((STEPS,), dtype="int32")
    model = keras.Model(inputs, keras.Sequential([tagger(), layers.Dense(TAGS, "softmax")])(inputs))
    return trained(model, TEXT, LABELS, loss="sparse_categorical_crossentropy")


def batch_by_batch():
    model = tagger()
    model.compile(keras.optimizers.SGD(0.1), "sparse_categorical_crossentropy", metrics=["acc"])
    seen = []
    for start in range(0, ROWS, BATCH):
        rows = slice(start, start + BATCH)
        seen.append(model.train_on_batch(TEXT[rows], LABELS[rows]))
    return result(seen, model)


def tags_eagerly():
    """Nobody knows the denominator beforehand in Python as it runs: computed whole."""
    compiling = {"run_eagerly": True}
    inputs = keras.Input((STEPS,), dtype="int32")
    model = keras.Model(inputs, layers.Dense(TAGS, "softmax")(embedded(inputs)))
    loss = "sparse_categorical_crossentropy"
    return trained(model, TEXT, LABELS, loss=loss, epochs=1, compiling=compiling)


def normalized_by_itself():
    """A loss with its own division by weights, which is no mean over rows: computed whole."""

    def loss(labels, predicted):
        weights = tf.cast(labels > 0.5, predicted.dtype) + 0.1
        return tf.reduce_sum(weights * tf.square(labels - predicted)) / tf.reduce_sum(weights)

    return trained(network(), X, Y[:, None], loss=loss)


def unaligned():
    """CTC, whose loops are of TensorFlow's oldest kind."""
    inputs = keras.Input((STEPS, 6))
    model = keras.Model(
        inputs, layers.Dense(TAGS + 1)(layers.GRU(5, return_sequences=True)(inputs))
    )
    spoken = np.repeat(X[:, None], STEPS, 1)
    words = np.tile([[1, 2]], (len(X), 1)).astype("int32")
    return trained(model, spoken, words, loss=keras.losses.CTC(), epochs=1)


def double(way):
    def doubled():
        keras.config.set_floatx("float64")
        try:
            return way()
        finally:
            keras.config.set_floatx("float32")

    doubled.__name__ = f"double_{way.__name__}"
    return doubled


KINDS = {
    way.__name__.replace("_", "-"): way
    for way in (
        tags, tags_of_padded_batches, tags_with_weights, tags_with_weights_of_words, tags_summed,
        tags_compiled, tags_by_own_loss, translation, several_outputs, sums, sums_by_class,
        weighted_means, weighted_means_by_class, words_ignored, pixels_ignored, computed_by_itself,
        nested, batch_by_batch, unaligned, tags_eagerly, normalized_by_itself, double(tags),
        double(several_outputs), double(translation), double(sums), double(weighted_means),
    )
}  # fmt: skip
