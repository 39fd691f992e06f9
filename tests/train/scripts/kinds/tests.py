"""Test steps of one's own, and what evaluation may share of them."""

import keras
import tensorflow as tf

from kinds.data import X, Y, sliced

BATCH = 12


class Tested(keras.Model):
    """Is built by its own method only, and has the test step of a script."""

    def __init__(self):
        super().__init__()
        self.tracker = keras.metrics.Mean(name="total")

    def build(self, shape):
        self.kernel = self.add_weight(shape=(shape[-1], 1), initializer="glorot_uniform")
        self.built = True

    def call(self, inputs):
        return tf.squeeze(inputs @ self.kernel, -1)

    @property
    def metrics(self):
        return [self.tracker]

    def loss_of(self, data):
        x, y = data
        return tf.reduce_mean(tf.square(self(x) - y))


class OfScalars(Tested):
    """Returns what is no metric: Keras reports that of the last batch."""

    def test_step(self, data):
        loss = self.loss_of(data)
        return {"loss": loss, "twice": 2 * loss}


class OfBoth(Tested):
    def test_step(self, data):
        loss = self.loss_of(data)
        self.tracker.update_state(loss)
        return {"total": self.tracker.result(), "last": tf.sqrt(loss)}


class OfBatches(Tested):
    """Counts batches, as Keras's guides do."""

    def test_step(self, data):
        self.tracker.update_state(self.loss_of(data))
        return {"total": self.tracker.result()}


class OfNoise(OfBatches):
    def __init__(self):
        super().__init__()
        self.noise = keras.random.SeedGenerator(7)

    def loss_of(self, data):
        return super().loss_of(data) + keras.random.uniform((), seed=self.noise)


class Printing(OfBatches):
    def test_step(self, data):
        self.seen = getattr(self, "seen", 0) + 1
        return super().test_step(data)


def evaluated(model, **options):
    model.compile("sgd", **options)
    return [
        model.evaluate(X, Y, batch_size=BATCH, verbose=0, return_dict=True),
        model.evaluate(sliced().batch(BATCH), verbose=0, return_dict=True),
        model.evaluate(sliced().batch(BATCH).repeat(), steps=5, verbose=0, return_dict=True),
        model.evaluate(X, Y, batch_size=BATCH, steps=4, verbose=0, return_dict=True),
    ], model.variables


def test_step_of_scalars():
    return evaluated(OfScalars())


def test_step_of_scalars_and_metrics():
    return evaluated(OfBoth())


def test_step_of_batches():
    return evaluated(OfBatches())


def test_step_of_noise():
    return evaluated(OfNoise())


class Dropping(keras.layers.Layer):
    """Drops also where nothing is trained, by TensorFlow's own seeds."""

    def call(self, inputs):
        return tf.nn.dropout(inputs, 0.5)


def asked_often(drop):
    """Evaluates and predicts again and again, and trains after it, with a dropout that stays on."""
    inputs = keras.Input((6,))
    model = keras.Model(inputs, keras.layers.Dense(1)(drop(inputs)))
    model.compile("sgd", "mse")
    numbers = []
    for _ in range(2):
        numbers += [model.evaluate(X, Y, verbose=0), model.evaluate(sliced().batch(32), verbose=0)]
        numbers += model.predict(X, verbose=0).sum(0).tolist()
        options = {"batch_size": 50, "shuffle": False, "verbose": 0}
        numbers.append(model.fit(X, Y, validation_data=(X, Y), **options).history)
    return numbers, model.variables


def noise_where_keras_layers_predict():
    return asked_often(lambda inputs: keras.layers.Dropout(0.5, seed=5)(inputs, training=True))


def noise_where_own_layers_predict():
    return asked_often(Dropping())


def dropout_where_nothing_trains():
    """Recurrent layers draw dropout that they do not use, and the next epoch draws from there."""
    inner = [keras.layers.Reshape((3, 2)), keras.layers.GRU(4, dropout=0.3, recurrent_dropout=0.2)]
    model = keras.Sequential([keras.Input((6,)), *inner, keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    of_unknown_length = tf.data.Dataset.from_generator(
        lambda: sliced().batch(32), output_signature=sliced().batch(32).element_spec
    )
    numbers = []
    for data in ((X, Y), of_unknown_length):
        options = {"batch_size": 50, "epochs": 2, "shuffle": False, "verbose": 0}
        numbers.append(model.fit(X, Y, validation_data=data, **options).history)
        numbers.append(model.evaluate(sliced().batch(32).repeat(), steps=5, verbose=0))
        numbers += model.predict(X, batch_size=50, verbose=0).sum(0).tolist()
        numbers += model.predict(of_unknown_length, verbose=0).sum(0).tolist()
        seeds = [v for v in model.non_trainable_variables if "seed" in v.path]
        numbers += [seed.numpy().tolist() for seed in seeds]
    return numbers, model.variables


def test_step_run_eagerly():
    model = Printing()
    numbers, variables = evaluated(model, run_eagerly=True)
    return [numbers, model.seen], variables


def losses_by_output():
    """Keras counts the loss of an output in batches, whatever rows they have."""
    inputs = keras.Input((6,))
    model = keras.Model(inputs, [keras.layers.Dense(1, name=name)(inputs) for name in "ab"])
    model.compile("sgd", ["mse", "mae"])
    data = tf.data.Dataset.from_tensor_slices((X, (Y, 9 * Y))).batch(50)
    of_unknown_length = tf.data.Dataset.from_generator(
        lambda: data, output_signature=data.element_spec
    )
    options = {"batch_size": 50, "shuffle": False, "verbose": 0, "validation_data": data}
    return [
        model.fit(X, (Y, 9 * Y), **options).history,
        model.evaluate(X, (Y, 9 * Y), batch_size=50, verbose=0, return_dict=True),
        model.evaluate(data, verbose=0, return_dict=True),
        model.evaluate(of_unknown_length, verbose=0, return_dict=True),
    ], model.variables


class Derived(keras.Model):
    """Reports what it makes of its metrics."""

    def compute_metrics(self, *args, **kwargs):
        results = super().compute_metrics(*args, **kwargs)
        return {**results, "twice": 2 * results["loss"]}


def values_made_of_metrics(**options):
    inputs = keras.Input((6,))
    model = Derived(inputs, keras.layers.Dense(1)(inputs))
    model.compile("sgd", "mse", **options)
    fitting = {"batch_size": BATCH, "shuffle": False, "validation_data": (X, Y), "verbose": 0}
    return [
        model.fit(X, Y, **fitting).history,
        model.evaluate(X, Y, batch_size=BATCH, verbose=0, return_dict=True),
        model.evaluate(sliced().batch(BATCH), verbose=0, return_dict=True),
    ], model.variables


def values_made_of_metrics_eagerly():
    return values_made_of_metrics(run_eagerly=True)


def classes_that_are_ignored():
    inputs = keras.Input((6,))
    model = keras.Model(inputs, keras.layers.Dense(3)(inputs))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=1)
    model.compile("sgd", loss)
    labels = (abs(Y) * 10).astype("int32") % 3
    fitting = {"batch_size": BATCH, "shuffle": False, "validation_data": (X, labels), "verbose": 0}
    return [
        model.fit(X, labels, **fitting).history,
        model.evaluate(X, labels, batch_size=BATCH, verbose=0, return_dict=True),
    ], model.variables


def batch_rmse(labels, outputs):
    return keras.ops.sqrt(keras.ops.mean(keras.ops.square(labels - outputs)))


def largest_label(labels, outputs):
    return keras.ops.max(labels)


def correlation(labels, outputs):
    labels, outputs = labels - keras.ops.mean(labels), outputs - keras.ops.mean(outputs)
    norms = [keras.ops.sqrt(keras.ops.sum(keras.ops.square(v))) for v in (labels, outputs)]
    return keras.ops.sum(labels * outputs) / (norms[0] * norms[1] + 1e-7)


class Batches(keras.metrics.Metric):
    """Counts batches, and sums the RMSE of each."""

    def __init__(self, name="batches"):
        super().__init__(name=name)
        self.total = self.add_weight(name="total", initializer="zeros")
        self.count = self.add_weight(name="count", initializer="zeros")

    def update_state(self, labels, outputs, sample_weight=None):
        self.total.assign_add(batch_rmse(labels, outputs))
        self.count.assign_add(1.0)

    def result(self):
        return {"batch_mean": self.total / self.count, "batches": self.count + 0.0}


class MostMissed(keras.metrics.Metric):
    """Remembers the largest error; ``above`` hides all errors of the first rows."""

    def __init__(self, above=0.0, name="most"):
        super().__init__(name=name)
        self.above = above
        self.most = self.add_weight(name="most", initializer="zeros")

    def update_state(self, labels, outputs, sample_weight=None):
        errors = keras.ops.max(keras.ops.abs(labels - outputs))
        self.most.assign(keras.ops.maximum(self.most, keras.ops.maximum(errors - self.above, 0.0)))

    def result(self):
        return self.most + 0.0


def measured(make, *, labels=Y, **options):
    """Numbers of evaluations before anything is trained, of a fit, and compiled again."""
    inputs = keras.Input((6,))
    hidden = keras.layers.Dense(4, "tanh")(inputs)
    model = keras.Model(inputs, keras.layers.Dense(1)(hidden))
    labels = labels[:, None]
    data = sliced(X, labels).batch(BATCH)
    fitting = {"batch_size": BATCH, "shuffle": False, "verbose": 0}
    numbers = []
    for again in (False, True):
        model.compile("sgd", "mse", metrics=make(), **options)
        numbers.append(model.evaluate(X, labels, batch_size=BATCH, verbose=0, return_dict=True))
        if not again:
            numbers.append(model.evaluate(data, verbose=0, return_dict=True))
            model.compile("sgd", "mse", metrics=make(), **options)
            numbers.append(model.fit(X, labels, validation_data=data, **fitting).history)
    return numbers, model.variables


def metrics_of_batches():
    return measured(lambda: [batch_rmse, largest_label, correlation, Batches()])


def metrics_of_batches_unbuilt():
    model = keras.Sequential([keras.layers.Dense(4, "tanh"), keras.layers.Dense(1)])
    labels = Y[:, None]
    model.compile("sgd", "mse", metrics=[batch_rmse])
    numbers = [
        model.evaluate(X, labels, batch_size=BATCH, verbose=0, return_dict=True),
        model.evaluate(sliced(X, labels).batch(BATCH), verbose=0, return_dict=True),
    ]
    return numbers, model.variables


def metrics_of_keras_by_batches():
    """Keras's own, which give one number for a batch of vectors, or along its rows."""
    inputs = keras.Input((6,))
    outputs = keras.layers.Reshape(())(keras.layers.Dense(1)(inputs))
    model = keras.Model(inputs, outputs)
    model.compile("sgd", "mse", metrics=["mae", keras.metrics.RootMeanSquaredError()])
    vectors = [
        model.evaluate(X, Y, batch_size=BATCH, verbose=0, return_dict=True),
        model.evaluate(sliced().batch(BATCH), verbose=0, return_dict=True),
        model.fit(X, Y, batch_size=BATCH, epochs=2, verbose=0).history,
    ]
    numbers, variables = measured(lambda: [keras.metrics.CosineSimilarity(axis=0)])
    return [vectors, numbers], [*model.variables, *variables]


def metrics_of_batches_eagerly():
    return measured(lambda: [batch_rmse, "mae"], run_eagerly=True)


def largest_error():
    return measured(lambda: [MostMissed(), "mae"])


def largest_error_of_later_batches():
    labels = Y.copy()
    labels[:BATCH] = 0.5
    labels[BATCH:] *= 9
    return measured(lambda: [MostMissed(above=4.0, name="later")], labels=labels)


KINDS = {
    way.__name__.replace("_", "-"): way
    for way in (
        test_step_of_scalars, test_step_of_scalars_and_metrics, test_step_of_batches,
        test_step_of_noise, test_step_run_eagerly, losses_by_output, values_made_of_metrics,
        values_made_of_metrics_eagerly, classes_that_are_ignored,
        noise_where_keras_layers_predict, noise_where_own_layers_predict,
        dropout_where_nothing_trains,
        metrics_of_batches, metrics_of_batches_unbuilt, metrics_of_keras_by_batches,
        metrics_of_batches_eagerly, largest_error, largest_error_of_later_batches,
    )
}  # fmt: skip
