"""Loops that a script writes itself, around ``tf.GradientTape``."""

import keras
import tensorflow as tf

import matex
from kinds.data import BATCH, classifier, sliced


def network(rate=0.2):
    layers = [keras.layers.Dense(8, "tanh"), keras.layers.Dropout(rate), keras.layers.Dense(1)]
    return keras.Sequential([keras.Input((6,)), *layers])


def make_step(model, optimizer, metric):
    loss_of = keras.losses.BinaryCrossentropy(from_logits=True)

    def step(x, y):
        with tf.GradientTape() as tape:
            logits = model(x, training=True)
            loss = loss_of(y[:, None], logits)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        metric.update_state(y[:, None], tf.sigmoid(logits))
        return loss

    return step


def loop(wrap, rate=0.2):
    model, optimizer, metric = network(rate), keras.optimizers.SGD(0.1), keras.metrics.AUC()
    step = wrap(make_step(model, optimizer, metric))
    numbers = []
    for _ in range(2):
        numbers += [step(x, y) for x, y in sliced().shuffle(118).batch(BATCH)]
        numbers.append(metric.result())
        metric.reset_state()
    return {"numbers": numbers}, [*model.variables, *optimizer.variables]


def eager_loop():
    return loop(lambda step: step)


def loop_rounded_otherwise():
    """Gradients that differ between ranks by a unit in the last place, as on other processors."""
    model, optimizer = network(rate=0.0), keras.optimizers.SGD(0.1)
    for x, y in sliced().batch(BATCH):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x, training=True) - y[:, None]) ** 2)
        weights = model.trainable_variables
        gradients = tape.gradient(loss, weights)
        optimizer.apply([g * (1 + 1.2e-7 * matex.rank()) for g in gradients], weights)
    for weight in weights:
        rows = matex.allgather(weight[None])
        assert bool(tf.reduce_all(rows == rows[:1]))
    return {"loss": loss}, model.variables


def graph_loop():
    return loop(tf.function)


def compiled_loop():
    """Without dropout: XLA's random numbers are others."""
    return loop(lambda step: tf.function(tf.function(step), jit_compile=True), rate=0.0)


def loop_in_a_graph():
    model, optimizer = network(), keras.optimizers.Adam(1e-4)
    metric = keras.metrics.AUC()
    step = make_step(model, optimizer, metric)

    @tf.function
    def epoch(data):
        total = 0.0
        for x, y in data:
            total += step(x, y)
        return total

    totals = [epoch(sliced().batch(BATCH)) for _ in range(2)]
    return {"totals": totals, "auc": metric.result()}, [*model.variables, *optimizer.variables]


def two_optimizers():
    first, second = network(), classifier()
    one, two = keras.optimizers.SGD(0.1), keras.optimizers.Adam(1e-4)

    @tf.function
    def step(x, y):
        with tf.GradientTape(persistent=True) as tape:
            a, b = first(x), second(x)
            losses = [tf.reduce_mean((a - y[:, None]) ** 2), tf.reduce_mean((b - a) ** 2)]
        for model, optimizer, loss in ((first, one, losses[0]), (second, two, losses[1])):
            weights = model.trainable_variables
            optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return losses

    numbers = [step(x, y) for x, y in sliced().batch(BATCH)]
    return {"losses": numbers}, [*first.variables, *second.variables]


KINDS = {
    way.__name__.replace("_", "-"): way
    for way in (
        eager_loop, loop_rounded_otherwise, graph_loop, compiled_loop, loop_in_a_graph,
        two_optimizers,
    )
}  # fmt: skip
