"""Every kind of data that ``fit`` takes."""

import contextlib
import gc
import itertools
import threading

import keras
import numpy as np
import tensorflow as tf

ROWS, BATCH = 118, 16
generator = np.random.default_rng(3)
X = generator.normal(size=(ROWS, 6)).astype("float32")
Y = (X[:, 0] * X[:, 1] + 0.3 * X[:, 2] > 0).astype("float32")
W = generator.uniform(0.5, 2, size=ROWS).astype("float32")


def classifier(optimizer=None, **options):
    layers = [keras.layers.Dense(8, "tanh"), keras.layers.Dense(1, "sigmoid")]
    model = keras.Sequential([keras.Input((6,)), *layers])
    return compiled(model, optimizer, **options)


def compiled(model, optimizer=None, **options):
    metrics = ["accuracy", keras.metrics.AUC(name="auc")]
    optimizer = keras.optimizers.SGD(0.1, momentum=0.5) if optimizer is None else optimizer
    model.compile(optimizer, "binary_crossentropy", metrics=metrics, **options)
    return model


def fitted(model, *data, **options):
    history = model.fit(*data, epochs=options.pop("epochs", 2), verbose=0, **options)
    numbers = {**history.history, "updates": int(model.optimizer.iterations)}
    return numbers, [*model.variables, *model.optimizer.variables]


def sliced(*arrays):
    return tf.data.Dataset.from_tensor_slices(arrays or (X, Y))


class Pieces(keras.utils.PyDataset):
    def __init__(self, **options):
        super().__init__(**options)
        self.epochs = 0

    def __len__(self):
        return (ROWS + BATCH - 1) // BATCH

    def __getitem__(self, index):
        rows = slice(index * BATCH, (index + 1) * BATCH)
        return X[rows] + 0.01 * self.epochs, Y[rows]

    def on_epoch_end(self):
        self.epochs += 1


def batches(endless=True):
    while True:
        for start in range(0, ROWS, BATCH):
            yield X[start : start + BATCH], Y[start : start + BATCH]
        if not endless:
            return


def arrays():
    return fitted(classifier(), X, Y, batch_size=BATCH)


def arrays_as_stored():
    return fitted(classifier(), X, Y, batch_size=BATCH, shuffle=False)


def arrays_with_steps():
    return fitted(classifier(), X, Y, batch_size=BATCH, steps_per_epoch=3, epochs=4)


def initial_epoch():
    return fitted(classifier(), X, Y, batch_size=BATCH, epochs=4, initial_epoch=2)


def sample_weight():
    options = {"batch_size": BATCH, "shuffle": "batch", "sample_weight": W}
    return fitted(classifier(weighted_metrics=["mse"]), X, Y, **options)


def validation_split():
    return fitted(classifier(), X, Y, batch_size=BATCH, validation_split=0.25)


def tf_data():
    data = sliced().shuffle(ROWS).batch(BATCH).prefetch(2)
    return fitted(classifier(), data, validation_data=sliced().batch(7), epochs=3)


def tf_data_cached():
    data = sliced().cache().cache("cached-rows")  # a file that is begun in the first epoch
    data = data.shuffle(50, reshuffle_each_iteration=True).batch(BATCH)
    return fitted(classifier(), data.map(lambda x, y: (x * 1.5, y)))


def tf_data_mapped():
    data = sliced(np.arange(ROWS)).shuffle(ROWS)
    data = data.map(lambda i: {"x": tf.gather(X, i) * 2.0, "y": tf.gather(Y, i)})
    data = data.map(lambda row: (row["x"] / 2.0, row["y"]), num_parallel_calls=2)
    validation = sliced().map(lambda x, y: (x, y)).batch(9, drop_remainder=True)
    return fitted(classifier(), data.batch(BATCH).prefetch(2), validation_data=validation)


def tf_data_looked_up():
    words = keras.layers.StringLookup(vocabulary=["1", "2", "3"])

    def numbered(i):
        number = tf.cast(words(tf.strings.as_string(i % 5)), "float32")
        return tf.gather(X, i) * number, tf.gather(Y, i)

    data = sliced(np.arange(ROWS)).map(numbered, num_parallel_calls=2).shuffle(50)
    validation = sliced(np.arange(ROWS)).map(numbered).batch(9).repeat()
    options = {"validation_data": validation, "validation_steps": 4}
    return fitted(classifier(), data.batch(BATCH).repeat(), steps_per_epoch=6, **options)


def tf_data_repeated():
    data = sliced().shuffle(ROWS).repeat().batch(BATCH)
    validation = {"validation_data": sliced().repeat().batch(9), "validation_steps": 4}
    return fitted(classifier(), data, steps_per_epoch=5, **validation)


def tf_data_read_in_parts():
    """Readers share the orders that a shuffle draws: one for each repetition that is begun."""
    data = sliced().shuffle(ROWS, seed=2).repeat()
    mapped = sliced().shuffle(ROWS, seed=3).map(lambda x, y: (2.0 * x, y)).repeat()
    model = classifier()
    numbers = []
    for _ in range(2):
        for each in (data.batch(BATCH).prefetch(1), mapped.batch(BATCH).prefetch(1)):
            numbers += model.fit(each, steps_per_epoch=6, verbose=0).history["loss"]
            numbers.append(model.evaluate(each, steps=6, verbose=0, return_dict=True)["loss"])
    return {"numbers": numbers}, model.variables


def tf_data_unknown_length():
    """Plain Keras makes a step without a batch at the end: decay, a count and a seed."""
    data = sliced().filter(lambda x, y: x[0] > -1.0).batch(BATCH)
    assert data.cardinality() < 0
    hidden = [keras.layers.Dense(8, "tanh"), keras.layers.Dropout(0.2)]
    model = keras.Sequential([keras.Input((6,)), *hidden, keras.layers.Dense(1, "sigmoid")])
    optimizer = keras.optimizers.AdamW(0.05, weight_decay=0.3)
    return fitted(compiled(model, optimizer), data, class_weight={0: 1.0, 1: 3.0})


def tf_data_of_one_batch_size():
    """Plain Keras counts the rows of a batch that never comes, in training and in evaluation."""
    data = sliced().filter(lambda x, y: x[0] > -1.0).batch(BATCH, drop_remainder=True)
    model = classifier(keras.optimizers.Nadam(0.05), weighted_metrics=["mse"])
    return fitted(model, data, validation_data=data)


def tf_data_weighted():
    return fitted(classifier(steps_per_execution=3), sliced(X, Y, W).batch(BATCH))


def tf_data_random():
    data = sliced().map(lambda x, y: (x + 0.1 * tf.random.normal(tf.shape(x)), y))
    return fitted(classifier(), data.batch(BATCH))


def tf_data_dicts():
    a, b = keras.Input((3,), name="a"), keras.Input((3,), name="b")
    output = keras.layers.Dense(1, "sigmoid")(keras.layers.Concatenate()([a, b]))
    data = sliced({"a": X[:, :3], "b": X[:, 3:]}, Y).batch(BATCH)
    return fitted(compiled(keras.Model({"a": a, "b": b}, output)), data)


def py_dataset():
    return fitted(classifier(), Pieces(), validation_data=Pieces(), epochs=3)


def py_dataset_with_workers():
    return fitted(classifier(), Pieces(workers=2), shuffle=False, class_weight={0: 1.0, 1: 2.0})


def generators():
    model = classifier()
    return fitted(model, batches(), steps_per_epoch=5, epochs=3, validation_data=(X, Y))


def generator_that_ends():
    return fitted(classifier(), batches(endless=False), epochs=1)


def generator_that_fails():
    """Trains on all batches before the error, in the step after which it ends."""
    begun, model = [], classifier()

    def failing():
        yield from itertools.islice(batches(endless=False), 3)
        raise OSError("it cannot be read")

    asking = keras.callbacks.Callback()
    asking.on_train_batch_begin = lambda batch, logs: begun.append(batch)
    with contextlib.suppress(tf.errors.OpError):
        model.fit(failing(), verbose=0, callbacks=[asking])
    numbers = {"begun": begun, "updates": int(model.optimizer.iterations)}
    return numbers, [*model.variables, *model.optimizer.variables]


def data_let_go_of():
    """Number of iterators that outlive the fits, where nobody collects garbage."""
    model = classifier()
    kind = type(iter(sliced().batch(BATCH)))

    def alive():
        return sum(isinstance(found, kind) for found in gc.get_objects())

    gc.collect()
    gc.disable()
    try:
        before = alive()
        for data in (sliced().batch(BATCH), batches(endless=False), Pieces()):
            model.fit(data, verbose=0)
        return [float(alive() - before)], model.variables
    finally:
        gc.enable()


def evaluate_unbuilt():
    """The first batch builds the model, and says that its masked loss is no mean."""
    model = keras.Sequential([keras.layers.Embedding(9, 2, mask_zero=True)])
    model.compile(loss="mse")
    words = np.abs(3 * X).astype("int64") % 9
    numbers = model.evaluate(words, np.ones((ROWS, 6, 2)), batch_size=BATCH, verbose=0)
    return [numbers], model.variables


def of_a_graph():
    """A model for batches of one size alone: all nodes of a graph."""
    links = np.eye(ROWS, k=1, dtype="float32")
    nodes = keras.Input((X.shape[1],))
    return keras.Model(nodes, keras.ops.matmul(links, nodes))


def evaluate_and_predict():
    model = classifier()
    model.fit(X, Y, batch_size=BATCH, shuffle=False, verbose=0)
    inputs = tf.data.Dataset.from_tensor_slices(X)
    predicted = [
        model.predict(X, batch_size=BATCH, verbose=0),
        model.predict(inputs.batch(10), verbose=0),
        model.predict(inputs.repeat().batch(10), steps=3, verbose=0),
        model.predict(X[:1], verbose=0),
        model.predict_on_batch(X[:5]),
        of_a_graph().predict(X, batch_size=ROWS, verbose=0),
    ]
    assert [len(part) for part in predicted] == [ROWS, ROWS, 30, 1, 5, ROWS]
    evaluated = [
        *model.evaluate(X, Y, batch_size=BATCH, verbose=0),
        *model.evaluate(sliced().batch(9), verbose=0),
        *model.evaluate(sliced().repeat().batch(9), steps=30, verbose=0),
        *model.evaluate(Pieces(), verbose=0),
        *model.evaluate(X, Y, sample_weight=W, steps=3, verbose=0),
        *model.test_on_batch(X[:20], Y[:20]),
    ]
    flat = [float(value) for part in predicted for value in np.ravel(part)]
    return {"predicted": flat, "evaluated": evaluated}, model.variables


def train_on_batch():
    model = classifier()
    logs = []
    for x, y in batches(endless=False):
        logs += model.train_on_batch(x, y)
    logs += model.train_on_batch(X, Y, sample_weight=W)
    logs += model.train_on_batch(X, Y, class_weight={0: 1.0, 1: 3.0})
    return {"logs": logs}, [*model.variables, *model.optimizer.variables]


def predict_beside():
    """A thread predicts with one model while another is trained."""
    teacher, model, predicted = classifier(), classifier(), []

    def predict():
        for rows in range(5, ROWS, 16):
            predicted.append(float(teacher.predict(X[:rows], verbose=0).sum()))
            predicted.extend(teacher.evaluate(X[:rows], Y[:rows], verbose=0))

    thread = threading.Thread(target=predict)
    thread.start()
    numbers, variables = fitted(model, X, Y, batch_size=BATCH, shuffle=False)
    thread.join()
    return {**numbers, "predicted": predicted}, variables


KINDS = {
    way.__name__.replace("_", "-"): way
    for way in (
        arrays, arrays_as_stored, arrays_with_steps, initial_epoch, sample_weight,
        validation_split,
        tf_data, tf_data_cached, tf_data_mapped, tf_data_looked_up, tf_data_repeated,
        tf_data_read_in_parts,
        tf_data_unknown_length, tf_data_of_one_batch_size, tf_data_weighted,
        tf_data_random, tf_data_dicts, py_dataset, py_dataset_with_workers, generators,
        generator_that_ends, generator_that_fails, data_let_go_of, evaluate_unbuilt,
        evaluate_and_predict, train_on_batch, predict_beside,
    )
}  # fmt: skip
