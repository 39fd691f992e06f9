"""Batches of few rows: fewer than ranks, one, none; and data that come to their end early."""

import keras
import numpy as np
import tensorflow as tf

from kinds.data import W, X, Y, fitted, sliced

FEW = slice(0, 10)


def few(**options):
    layers = [keras.layers.Dense(4, "tanh"), keras.layers.Dense(1, "sigmoid")]
    model = keras.Sequential([keras.Input((6,)), *layers])
    optimizer = keras.optimizers.SGD(0.1, momentum=0.5)
    model.compile(optimizer, "binary_crossentropy", metrics=["accuracy"], **options)
    return model


def eager(**options):
    return few(run_eagerly=True, **options)


def of_sizes(*sizes):
    start = 0
    for size in sizes:
        yield X[start : start + size], Y[start : start + size]
        start += size


def noisy(run_eagerly):
    """Random by nature, so that nothing is tried out before the first step."""
    layers = [keras.layers.Dense(4, "tanh"), keras.layers.Dropout(0.0), keras.layers.Dense(1)]
    model = keras.Sequential([keras.Input((6,)), *layers])
    model.compile(keras.optimizers.Adam(0.01), "mse", run_eagerly=run_eagerly)
    return model


class Counting(keras.Model):
    """A model whose step is Python, of which each rank must run all."""

    def __init__(self):
        super().__init__()
        self.out = keras.layers.Dense(1, "sigmoid", kernel_regularizer="l2")
        self.calls = 0
        self.tests = 0

    def call(self, inputs):
        return self.out(inputs)

    def train_step(self, data):
        self.calls += 1
        return super().train_step(data)

    def test_step(self, data):
        self.tests += 1
        return super().test_step(data)


def sizes_of_batches():
    model = few()
    histories = [
        fitted(model, X[FEW], Y[FEW], validation_data=(X[:5], Y[:5]))[0],
        fitted(model, X[FEW], Y[FEW], batch_size=10**9)[0],
        fitted(model, X, Y, batch_size=np.int64(16), shuffle=False, epochs=np.int64(2))[0],
        fitted(model, X[:17], Y[:17], sample_weight=W[:17], batch_size=16, shuffle=False)[0],
    ]
    return histories, [*model.variables, *model.optimizer.variables]


def one_row():
    options = {"validation_data": (X[:1], Y[:1]), "epochs": 3}
    first = fitted(noisy(False), X[:1], Y[:1], **options)
    second = fitted(noisy(True), X[:1], Y[:1], **options)
    return [first[0], second[0]], first[1] + second[1]


def batches_of_one():
    return fitted(few(), X[:5], Y[:5], batch_size=1, shuffle=False)


def batches_of_one_eager():
    model = eager()
    return fitted(model, X[:5], Y[:5], batch_size=1, shuffle=False, validation_data=(X[:2], Y[:2]))


def streams_of_one():
    first = fitted(few(), sliced(X[:5], Y[:5]).batch(1), validation_data=sliced().batch(1))
    mapped = sliced(np.arange(7)).map(lambda i: (tf.gather(X, i), tf.gather(Y, i)))
    second = fitted(eager(), mapped.batch(3), validation_data=mapped.batch(2))
    return [first[0], second[0]], first[1] + second[1]


def counted_in_python():
    model = Counting()
    model.compile("sgd", "binary_crossentropy", metrics=["accuracy"], run_eagerly=True)
    history, variables = fitted(model, sliced(X[:7], Y[:7]).batch(2), epochs=3)
    model.evaluate(sliced(X[:7], Y[:7]).batch(2), verbose=0)
    calls = [tf.Variable(float(model.calls)), tf.Variable(float(model.tests))]
    return {"history": history, "tests": model.tests}, [*variables, *calls]


def batches_without_rows():
    first = fitted(few(), of_sizes(3, 0, 5, 1), epochs=1)
    second = fitted(few(), of_sizes(0, 3), epochs=1)
    return [first[0], second[0]], first[1] + second[1]


def no_rows():
    model = few()
    histories = [
        model.fit(X[:0], Y[:0], verbose=0).history,
        model.fit(sliced(X[:0], Y[:0]).batch(4), verbose=0).history,
    ]
    assert histories == [{}, {}], histories
    evaluated = [
        model.evaluate(X[:0], Y[:0], verbose=0),
        model.evaluate(sliced(X[:0], Y[:0]).batch(4), verbose=0),
    ]
    return {"evaluated": evaluated, "on batch": model.train_on_batch(X[:0], Y[:0])}, model.variables


def single_rows():
    model, strict = few(), eager()
    logs = []
    for each in (model, strict):
        # Before it was ever trained, so that its metrics are made now.
        logs += each.evaluate(X[:1], Y[:1], verbose=0)
        logs += each.evaluate(sliced(X[:3], Y[:3]).batch(1), verbose=0)
        logs += each.test_on_batch(X[:1], Y[:1])
        for i in range(3):
            logs += each.train_on_batch(X[i : i + 1], Y[i : i + 1])
        logs += each.predict(X[:1], verbose=0).ravel().tolist()
        logs += each.predict(X[:5], batch_size=2, verbose=0).ravel().tolist()
        logs += each.predict(sliced(X[:3]).batch(1), verbose=0).ravel().tolist()
        logs += each.predict_on_batch(X[:1]).ravel().tolist()
    return {"logs": logs}, [*model.variables, *strict.variables]


KINDS = {
    way.__name__.replace("_", "-"): way
    for way in (
        sizes_of_batches, one_row, batches_of_one, batches_of_one_eager, streams_of_one,
        counted_in_python, batches_without_rows, no_rows, single_rows,
    )
}  # fmt: skip
