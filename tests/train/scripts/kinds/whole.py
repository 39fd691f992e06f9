"""Steps that are no sum over rows: only the whole batch gives what one process computes."""

import os

import keras
import numpy as np
import tensorflow as tf

from kinds.data import ROWS, X, Y, fitted, sliced
from kinds.models import TOKENS

BATCH = 12
FITTING = {"batch_size": BATCH, "shuffle": False}
dense = keras.layers.Dense


def trained(*layers, loss="mse", x=X, y=Y, run_eagerly=False, **options):
    model = keras.Sequential([keras.Input(x.shape[1:]), *layers])
    model.compile(keras.optimizers.SGD(0.05), loss, run_eagerly=run_eagerly)
    return fitted(model, x, y, **{**FITTING, **options})


def layer(call):
    """A layer of *call*, which gets the layer too."""

    class Own(keras.layers.Layer):
        def call(self, inputs):
            return call(self, inputs)

    return Own()


def noise_of_tensorflow():
    """Noise for the rows, and some that is the same for all rows of a step."""

    def call(_, x):
        x += 0.3 * tf.random.normal(tf.shape(x), mean=0.1)
        x = tf.nn.dropout(x * tf.random.uniform((6,), 0.5, 1.5), 0.2)
        pair = tf.random.truncated_normal((2 * tf.shape(x)[0], 6), seed=3)
        return x + pair[: tf.shape(x)[0]] - pair[tf.shape(x)[0] :]

    return trained(dense(6), layer(call), dense(1))


def noise_of_layers():
    random = keras.layers.Dropout(0.3), keras.layers.GaussianNoise(0.2)
    return trained(dense(8), *random, dense(6), keras.layers.AlphaDropout(0.2), dense(1))


def noise_in_a_loop():
    def call(_, x):
        def once(i, y):
            return i + 1, y + 0.1 * tf.random.normal(tf.shape(x))

        return tf.while_loop(lambda i, _: i < 3, once, (0, x))[1]

    return trained(dense(6), layer(call), dense(1))


def noise_of_keras():
    def call(_, x):
        x += 0.3 * keras.random.normal(tf.shape(x))
        x += tf.cast(keras.random.randint((tf.shape(x)[0], 1), 0, 3), x.dtype) / 9
        return keras.random.dropout(x, 0.2) * keras.random.uniform((6,), 0.5, 1.5)

    return trained(dense(6), layer(call), dense(1))


def noise_of_a_generator():
    drawn = tf.random.Generator.from_seed(3)
    return trained(dense(6), layer(lambda _, x: x + drawn.normal(tf.shape(x))), dense(1))


def noise_of_numpy():
    return trained(
        dense(6),
        layer(lambda _, x: x + np.random.normal(size=6)),  # noqa: NPY002 - on purpose
        dense(1),
    )


def noise_of_numpy_eagerly():
    return trained(
        dense(6),
        layer(lambda _, x: x + np.random.normal(size=(x.shape[0] or 1, 6))),  # noqa: NPY002
        dense(1),
        run_eagerly=True,
        epochs=1,
    )


def noise_of_tensorflow_eagerly():
    return trained(
        dense(6),
        layer(lambda _, x: x + tf.random.normal(tf.shape(x))),
        dense(1),
        run_eagerly=True,
        epochs=1,
    )


def noise_of_ones_own():
    drawn = np.random.default_rng(os.getpid())

    def noise(x):
        return drawn.normal(size=x.shape).astype("float32")

    def call(_, x):
        return x + tf.ensure_shape(tf.numpy_function(noise, [x], tf.float32), x.shape)

    return trained(dense(6), layer(call), keras.layers.BatchNormalization(), dense(1))


def added_up_with_dropout():
    """No step of the script's own: is shared."""

    def loss(y, predicted):
        return tf.square(y - tf.squeeze(predicted, -1))

    return trained(dense(6, "tanh"), keras.layers.Dense(1), loss=loss)


def ends_at_a_nan():
    rows = X.copy()
    rows[30] = np.nan
    model = keras.Sequential([keras.Input((6,)), dense(1)])
    model.compile(keras.optimizers.SGD(0.05), "mse")
    ending = keras.callbacks.TerminateOnNaN()
    numbers, variables = fitted(model, rows, Y, callbacks=[ending], **FITTING)
    return [numbers, int(model.optimizer.iterations), variables[0].numpy().tolist()], variables


def few_steps():
    """The limits that a script sets for a quick look."""
    if not hasattr(keras.config, "set_max_steps_per_epoch"):
        return [], []
    keras.config.set_max_steps_per_epoch(3)
    keras.config.set_max_epochs(2)
    model = keras.Sequential([keras.Input((6,)), dense(4, "tanh"), dense(1)])
    model.compile(keras.optimizers.SGD(0.05), "mse")
    numbers, variables = fitted(
        model, X, Y, epochs=5, validation_data=(X, Y), validation_batch_size=10, **FITTING
    )
    more = [
        model.evaluate(X, Y, batch_size=10, verbose=0),
        model.predict(X, batch_size=10, verbose=0).sum(),
        model.predict(sliced(X).batch(10), verbose=0).sum(),
        model.fit(sliced().batch(10), verbose=0).history["loss"],
    ]
    keras.config.set_max_steps_per_epoch(None)
    keras.config.set_max_epochs(None)
    return [numbers, more], variables


def loss_added_as_a_sum():
    """Beside a mean, and beside sums that the script itself divides by the number of rows."""

    def call(self, x):
        squares = tf.reduce_sum(tf.square(x), 1)
        self.add_loss(0.01 * tf.reduce_sum(squares) - tf.reduce_sum(x) / 70.0)
        self.add_loss(0.02 * squares)
        self.add_loss(0.03 * tf.reduce_sum(squares) / tf.cast(tf.shape(x)[0], x.dtype))
        return x

    return trained(dense(6, "tanh"), layer(call), dense(1))


def masked_loss_of(targets, predicted):
    """The masked loss of TensorFlow's tutorial on translation."""
    loss = keras.losses.sparse_categorical_crossentropy(targets, predicted, from_logits=True)
    mask = tf.cast(targets != 0, loss.dtype)
    return tf.reduce_sum(loss * mask) / tf.reduce_sum(mask)


def masked_accuracy(targets, predicted):
    chosen = tf.cast(tf.argmax(predicted, -1), targets.dtype)
    mask = tf.cast(targets != 0, tf.float32)
    return tf.reduce_sum(tf.cast(chosen == targets, tf.float32) * mask) / tf.reduce_sum(mask)


def translating(*inner, metrics=None):
    layers = [keras.layers.Embedding(20, 4), *inner, dense(20)]
    model = keras.Sequential([keras.Input((5,), dtype="int32"), *layers])
    model.compile(keras.optimizers.SGD(0.5), masked_loss_of, metrics=metrics)
    return fitted(model, TOKENS, TOKENS, validation_data=(TOKENS, TOKENS), **FITTING)


def loss_with_a_mask():
    return translating(dense(8, "tanh"))


def loss_with_a_mask_and_dropout():
    return translating(dense(8, "tanh"), keras.layers.Dropout(0.3), metrics=[masked_accuracy])


def loss_with_a_mask_and_batch_norm():
    return translating(dense(8, "tanh"), keras.layers.BatchNormalization())


def contrastive_of(_, predicted):
    similar = tf.matmul(predicted, predicted, transpose_b=True)
    labels = tf.range(tf.shape(predicted)[0])
    return keras.losses.sparse_categorical_crossentropy(labels, similar, from_logits=True)


def contrastive():
    return trained(dense(8, "tanh"), dense(4), loss=contrastive_of)


def contrastive_with_dropout():
    return trained(dense(8, "tanh"), keras.layers.Dropout(0.3), dense(4), loss=contrastive_of)


def contrastive_batches():
    model = keras.Sequential([keras.Input((6,)), dense(8, "tanh"), dense(4)])
    model.compile(keras.optimizers.SGD(0.05), contrastive_of)
    parts = [(X[i : i + BATCH], Y[i : i + BATCH]) for i in range(0, ROWS, BATCH)]
    return [float(model.train_on_batch(*part)) for part in parts], model.variables


def counted_classes(labels, predicted):
    labels = tf.cast(tf.reshape(labels, [-1]), tf.int32)
    counts = tf.math.bincount(labels, minlength=2, dtype=tf.float32)
    losses = tf.square(predicted[:, 0] - tf.cast(labels, tf.float32))
    return losses / tf.gather(counts, labels)


def unique_classes(labels, predicted):
    labels = tf.cast(tf.reshape(labels, [-1]), tf.int32)
    _, places, counts = tf.unique_with_counts(labels)
    losses = tf.square(predicted[:, 0] - tf.cast(labels, tf.float32))
    return losses / tf.cast(tf.gather(counts, places), tf.float32)


def balanced_by_counts():
    return trained(dense(8, "tanh"), dense(1), loss=counted_classes)


def balanced_by_unique_labels():
    return trained(dense(8, "tanh"), dense(1), loss=unique_classes)


def product_over_the_batch():
    def call(_, x):
        return x + 0.1 * tf.matmul(tf.tensordot(x, x, [[1], [1]]), x) / 12

    return trained(dense(6, "tanh"), layer(call), dense(1))


def own_normalization():
    def call(_, x):
        return (x - tf.reduce_mean(x, 0)) / (tf.math.reduce_std(x, 0) + 1e-3)

    return trained(dense(6), layer(call), dense(1))


def fields_for_all_rows():
    distorted = keras.layers.RandomElasticTransform(1.0, 1.0, value_range=(-5, 5), seed=1)
    return trained(keras.layers.Reshape((2, 3, 1)), distorted, keras.layers.Flatten(), dense(1))


def whole_batches():
    """The batches of a data set in which every batch has the one size."""
    rows = ROWS // BATCH * BATCH
    return sliced(X[:rows], Y[:rows].reshape(-1, 1)).batch(BATCH, drop_remainder=True)


def fitted_on_whole_batches(call):
    model = keras.Sequential([dense(6), layer(call), dense(1)])
    model.compile(keras.optimizers.SGD(0.05), "mse")
    return fitted(model, whole_batches())


def shape_of_the_batch():
    return fitted_on_whole_batches(lambda _, x: x + tf.zeros((x.shape[0], 1)))


def reshaped_by_the_batch_size():
    return fitted_on_whole_batches(lambda _, x: tf.reshape(tf.reshape(x, (BATCH * 6,)), (BATCH, 6)))


def asserted_batch_size():
    def call(_, x):
        with tf.control_dependencies([tf.debugging.assert_equal(tf.shape(x)[0], BATCH)]):
            return tf.identity(x)

    return fitted_on_whole_batches(call)


def state_of_rows():
    """A layer keeps the state of each row for the next batch."""
    inputs = keras.Input(batch_shape=(BATCH, 3, 2))
    memory = keras.layers.GRU(4, stateful=True)
    model = keras.Sequential([inputs, memory, dense(1)])
    model.compile(keras.optimizers.SGD(0.05), "mse", metrics=["mae"])
    rows = ROWS // BATCH * BATCH
    x, y = X[:rows].reshape(-1, 3, 2), Y[:rows, None]
    history, variables = fitted(model, x, y, **FITTING)
    memory.reset_states()
    history["evaluated"] = model.evaluate(x, y, batch_size=BATCH, verbose=0)
    history["predicted"] = model.predict(x, batch_size=BATCH, verbose=0).sum()
    history["on a batch"] = model.train_on_batch(x[:BATCH], y[:BATCH])
    return history, variables


class Stepping(keras.Model):
    def __init__(self):
        super().__init__()
        self.hidden = dense(8, "tanh")
        self.out = dense(1)
        self.count = tf.Variable(0.0)

    def call(self, inputs):
        return self.out(self.hidden(inputs))

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(tf.squeeze(self(x, training=True), -1) - y))
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        return self.told(x, loss, gradients)


class Counting(Stepping):
    """Counts its steps in a variable that Keras does not know."""

    def told(self, x, loss, gradients):
        self.count.assign_add(1.0)
        return {"loss": loss, "count": self.count + 0.0}


class Norms(Stepping):
    """Returns what is no mean over rows."""

    def told(self, x, loss, gradients):
        return {"loss": loss, "norm": tf.linalg.global_norm(gradients)}


class Largest(keras.metrics.Metric):
    def __init__(self):
        super().__init__(name="largest")
        self.value = self.add_weight(name="value", initializer="zeros")

    def update_state(self, y_true, y_pred, sample_weight=None):
        error = tf.reduce_max(tf.abs(tf.squeeze(y_pred, -1) - y_true))
        self.value.assign(tf.maximum(self.value, error))

    def result(self):
        return self.value + 0.0


def stepped(model):
    model.compile(keras.optimizers.SGD(0.05))
    return fitted(model, X, Y, **FITTING)


class TwoSets(Stepping):
    """Learns from labelled rows, and from others without labels, of which a batch has more."""

    def train_step(self, data):
        others, (x, y) = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(tf.squeeze(self(x, training=True), -1) - y))
            loss += 0.1 * tf.reduce_mean(tf.abs(self(others, training=True)))
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        return {"total": loss}

    def test_step(self, data):
        others, (x, y) = data
        return {"error": tf.reduce_mean(tf.abs(self(x)[:, 0] - y)) + tf.reduce_mean(self(others))}

    def predict_step(self, data):
        others, (x, _) = data
        return self(x) + tf.reduce_mean(self(others))


def batches_of_two_sizes():
    model = TwoSets()
    model.compile(keras.optimizers.SGD(0.05))
    data = tf.data.Dataset.zip((sliced(X).map(lambda x: x).batch(20), sliced().batch(BATCH)))
    history, variables = fitted(model, data.take(5))
    history["evaluated"] = model.evaluate(data.take(3), verbose=0)
    history["predicted"] = model.predict(data.take(2), verbose=0).sum()
    return history, variables


def batches_of_two_sizes_late():
    return fitted(*two_sizes_late())


def stopped_before_another_size():
    return fitted(*two_sizes_late(), callbacks=[StopsAfter(3)])


def stopped_within_an_epoch():
    return trained(dense(8, "tanh"), dense(4), loss=contrastive_of, callbacks=[StopsAfter(2)])


class StopsAfter(keras.callbacks.Callback):
    def __init__(self, batch):
        super().__init__()
        self.last = batch

    def on_train_batch_end(self, batch, logs=None):
        if batch == self.last:
            self.model.stop_training = True


def two_sizes_late():
    """A model and its data, of which the first batches happen to have as many rows of both."""
    model = TwoSets()
    model.compile(keras.optimizers.SGD(0.05))

    def batches():
        for start in range(0, 90, BATCH):
            more = start // 48
            yield (
                X[start : start + BATCH + more],
                (X[start : start + BATCH], Y[start : start + BATCH]),
            )

    form = (
        tf.TensorSpec((None, 6)),
        (tf.TensorSpec((None, 6)), tf.TensorSpec((None,), Y.dtype)),
    )
    return model, tf.data.Dataset.from_generator(batches, output_signature=form)


def own_counter():
    return stepped(Counting())


def value_that_is_no_mean():
    return stepped(Norms())


def metric_that_is_no_sum():
    model = keras.Sequential([keras.Input((6,)), dense(8, "tanh"), dense(1)])
    model.compile(keras.optimizers.SGD(0.05), "mse", metrics=[Largest()])
    return fitted(model, X, Y, validation_data=(X[:30], Y[:30]), **FITTING)


def losses_by_output_of_whole_batches():
    """Keras counts the loss of an output in batches, whatever rows they have."""
    inputs = keras.Input((6,))
    outputs = {name: dense(1, name=name)(inputs) for name in "ab"}
    model = keras.Model(inputs, outputs)
    model.compile("sgd", {"a": "mse", "b": "mae"}, metrics={"a": [Largest()]})
    targets = {"a": Y[:, None], "b": 9 * Y[:, None]}
    fitting = {"batch_size": 50, "shuffle": False, "verbose": 0}
    data = sliced(X, targets).batch(50)
    return [
        model.fit(X, targets, **fitting).history,
        model.fit(data, verbose=0).history,
    ], model.variables


def made_in_a_scope():
    """A script for several devices finds one."""
    strategy = tf.distribute.MirroredStrategy(["/cpu:0"])
    with strategy.scope():
        model = keras.Sequential([keras.Input((6,)), dense(8, "tanh"), dense(1)])
        model.compile(keras.optimizers.Adam(0.01), "mse")
    history, variables = fitted(model, X, Y, validation_data=(X, Y), **FITTING)
    history["predicted"] = model.predict(X, verbose=0).sum()
    history["on a batch"] = model.train_on_batch(X[:BATCH], Y[:BATCH])
    return history, variables


class Codebook(keras.layers.Layer):
    """Moves entries by how many rows fell to each, as vector quantization does."""

    def build(self, shape):
        self.counts = self.add_weight(shape=(6,), trainable=False, initializer="zeros")

    def call(self, inputs, training=False):
        if training:
            chosen = tf.one_hot(tf.argmax(inputs, -1), 6)
            self.counts.assign(0.9 * self.counts + 0.1 * tf.reduce_sum(chosen, 0))
        return inputs + self.counts / 100


def codebook():
    return trained(dense(6), Codebook(), dense(1))


def whole_of_shuffled_rows():
    def call(self, x):
        return 0.7 * x + 0.3 * keras.random.shuffle(x, seed=self.drawn)

    mixing = layer(call)
    mixing.drawn = keras.random.SeedGenerator(4)
    return trained(dense(6), mixing, dense(1))


KINDS = {
    way.__name__.replace("_", "-"): way
    for way in (
        noise_of_tensorflow, noise_of_layers, noise_in_a_loop,
        noise_of_keras, noise_of_a_generator, noise_of_numpy,
        noise_of_numpy_eagerly, noise_of_tensorflow_eagerly, loss_added_as_a_sum,
        loss_with_a_mask, loss_with_a_mask_and_dropout, loss_with_a_mask_and_batch_norm,
        contrastive, contrastive_with_dropout, contrastive_batches,
        balanced_by_counts, balanced_by_unique_labels, product_over_the_batch,
        own_normalization, fields_for_all_rows, shape_of_the_batch,
        reshaped_by_the_batch_size, asserted_batch_size,
        noise_of_ones_own, added_up_with_dropout, ends_at_a_nan, few_steps,
        own_counter, value_that_is_no_mean, metric_that_is_no_sum, codebook,
        losses_by_output_of_whole_batches, made_in_a_scope,
        whole_of_shuffled_rows, state_of_rows, batches_of_two_sizes, batches_of_two_sizes_late,
        stopped_before_another_size, stopped_within_an_epoch,
    )
}  # fmt: skip
