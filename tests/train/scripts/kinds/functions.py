"""Custom loops around functions that train, whose rows ranks can share."""

import keras
import numpy as np
import tensorflow as tf
from keras import ops

import matex
from kinds.data import BATCH, X, Y, sliced
from kinds.updates import LATENT, WIDTH, dense


def trained(step, *parts, data=None, epochs=2):
    """The numbers that *step* returned for all batches, and the variables of *parts*."""
    numbers = []
    for _ in range(epochs):
        for batch in sliced(X, Y[:, None]).batch(BATCH) if data is None else data:
            numbers.append([float(ops.sum(part)) for part in tf.nest.flatten(step(*batch))])
    variables = [variable for part in parts for variable in part.variables]
    numbers.append([float(ops.sum(ops.abs(variable))) for variable in variables])
    return {"numbers": numbers}, variables


def returned_rows():
    """The loss, what each row was given, how many were right, and a metric's result."""
    layers = keras.layers
    model = keras.Sequential(
        [keras.Input((WIDTH,)), layers.Dense(8, "tanh"), layers.Dropout(0.2), layers.Dense(1)]
    )
    optimizer = keras.optimizers.Adam(0.01)
    loss_of = keras.losses.BinaryCrossentropy(from_logits=True)
    accuracy, mean = keras.metrics.BinaryAccuracy(threshold=0.0), keras.metrics.Mean()

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            logits = model(x, training=True)
            loss = loss_of(y, logits)
        weights = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        accuracy.update_state(y, logits)
        mean.update_state(loss)
        right = tf.equal(logits > 0, y > 0.5)
        return {
            "loss": loss, "logits": logits, "right": tf.cast(right, tf.float32),
            "count": tf.reduce_sum(tf.cast(right, tf.int64)), "accuracy": accuracy.result(),
            "mean": mean.result(), "classes": tf.argmax(x, 1),
        }  # fmt: skip

    return trained(step, model, optimizer, accuracy, mean)


class GanLoop:
    """Two optimizers, methods, noise from a generator, and functions inside the function."""

    def __init__(self):
        self.discriminator, self.generator = dense(WIDTH, 8, 1), dense(LATENT, 8, WIDTH)
        self.optimizers = keras.optimizers.Adam(0.01), keras.optimizers.Adam(0.02)
        self.loss_of = keras.losses.BinaryCrossentropy(from_logits=True)
        self.seeds = keras.random.SeedGenerator(5)

    def noise(self, x):
        return keras.random.normal((tf.shape(x)[0], LATENT), seed=self.seeds)

    @tf.function
    def criticize(self, x):
        fake = self.generator(self.noise(x), training=True)
        with tf.GradientTape() as tape:
            real, judged = self.discriminator(x), self.discriminator(fake)
            loss = self.loss_of(tf.ones_like(real), real)
            loss += self.loss_of(tf.zeros_like(judged), judged)
        self.update(0, self.discriminator, tape, loss)
        return loss

    def generate(self, x):
        noise = self.noise(x)
        with tf.GradientTape() as tape:
            judged = self.discriminator(self.generator(noise, training=True))
            loss = self.loss_of(tf.ones_like(judged), judged)
        self.update(1, self.generator, tape, loss)
        return loss

    def update(self, number, network, tape, loss):
        weights = network.trainable_variables
        pairs = zip(tape.gradient(loss, weights), weights, strict=True)
        self.optimizers[number].apply_gradients(pairs)

    @tf.function
    def step(self, x, y):
        return self.criticize(x), self.generate(x)


def gan_loop():
    gan = GanLoop()
    return trained(gan.step, gan.discriminator, gan.generator, *gan.optimizers)


def built_by_the_first_call():
    """Layers without an input shape, which make their variables in the function."""
    layers = keras.layers
    model = keras.Sequential([layers.Dense(8, "tanh"), layers.Dropout(0.3), layers.Dense(1)])
    optimizer = keras.optimizers.Adam(0.01)

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
        weights = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return loss

    numbers, _ = trained(step)
    return numbers, [*model.variables, *optimizer.variables]


def constant_noise():
    """Noise of TensorFlow's for a number of rows that the script knows; the last batch has less."""
    gan = GanLoop()

    def noise(x):
        scale = tf.random.uniform([BATCH, 1], 1, 9, tf.int32) / 9
        normal = tf.random.normal([BATCH, LATENT]) + keras.random.normal((BATCH, LATENT))
        normal += tf.random.stateless_normal([BATCH, 1], (1, 2))
        return tf.cast(scale, normal.dtype) * normal

    gan.noise = noise
    return trained(gan.step, gan.discriminator, gan.generator, *gan.optimizers)


def sums_over_rows():
    """A sum, divided by the size that the batch should have, as in a loop for several devices."""
    model, optimizer = dense(WIDTH, 8, 1), keras.optimizers.SGD(0.05, momentum=0.9)

    @tf.function(input_signature=[tf.TensorSpec([None, WIDTH]), tf.TensorSpec([None, 1])])
    def step(x, y):
        with tf.GradientTape() as tape:
            each = keras.losses.binary_crossentropy(y, model(x), from_logits=True)
            loss = tf.nn.compute_average_loss(each, global_batch_size=BATCH)
        weights = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return loss

    return trained(step, model, optimizer)


def decorated():
    """A step by matex.step alone; a rate that AutoGraph tests, a flag, and a dictionary."""
    model, optimizer = dense(WIDTH, 8, 1), keras.optimizers.SGD(0.05)
    steps = keras.Variable(0, trainable=False, dtype="int64")

    @matex.step
    def step(batch, penalty, *, squared):
        with tf.GradientTape() as tape:
            gap = tf.abs(model(batch["x"]) - batch["y"])
            loss = tf.reduce_mean(gap**2 if squared else gap)
            if penalty > 0:
                weights = model.trainable_weights
                loss += penalty * tf.add_n([tf.reduce_sum(weight**2) for weight in weights])
        gradients = tape.gradient(loss, model.trainable_weights)
        gradients, _ = tf.clip_by_global_norm(gradients, 1.0)
        optimizer.apply(gradients, model.trainable_weights)
        steps.assign_add(1)
        return loss

    def called(x, y):
        return step({"x": x, "y": y}, tf.constant(0.01), squared=True)

    numbers, variables = trained(called, model, optimizer)
    return {**numbers, "steps": steps.numpy()}, [*variables, steps]


def follower():
    """Weights that follow others, and a step that looks across rows is computed whole."""
    model, target = dense(WIDTH, 8, 2), dense(WIDTH, 8, 2)
    target.set_weights(model.get_weights())
    optimizer = keras.optimizers.Adam(0.01)

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x) - tf.stop_gradient(target(x + 0.1))) ** 2)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        for slow, fast in zip(target.variables, model.variables, strict=True):
            slow.assign(0.9 * slow + 0.1 * fast)
        return loss

    return trained(step, model, target, optimizer)


def batch_moments():
    """BatchNorm, whose moments are those of all rows of the batch."""
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((WIDTH,)),
            layers.Dense(8, "tanh"),
            layers.BatchNormalization(),
            layers.Dense(8, "tanh"),
            layers.Dense(1),
        ]
    )
    optimizer = keras.optimizers.SGD(0.05)

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    return trained(step, model, optimizer)


def contrast():
    """A loss of pairs of rows."""
    model, optimizer = dense(WIDTH, 16, 2), keras.optimizers.Adam(0.01)

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            ways = tf.math.l2_normalize(model(x), 1)
            alike = tf.matmul(ways, ways, transpose_b=True)
            loss = tf.reduce_mean(tf.reduce_logsumexp(alike, 1) - tf.linalg.diag_part(alike))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    return trained(step, model, optimizer)


def branch_by_rows():
    """A loss that has a part more where the mean of the rows is not too large."""
    model, optimizer = dense(WIDTH, 8, 1), keras.optimizers.SGD(0.1)

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x) - y) ** 2)
            if tf.reduce_mean(x) < 1e9:
                loss += 0.01 * tf.reduce_mean(model(x) ** 2)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    return trained(step, model, optimizer)


def bound_by_other_points(points=5):
    """A loss at points of two numbers, by an optimizer that its first step builds."""
    model, optimizer = dense(WIDTH, 8, 1), keras.optimizers.Adam(0.01)
    bounds, seeds = tf.constant(X[:points]), keras.random.SeedGenerator(3)

    @tf.function
    def step(x, bounds, weights):
        x += 0.1 * keras.random.normal(tf.shape(x), seed=seeds)
        with tf.GradientTape() as tape:
            losses = [tf.reduce_mean(model(x) ** 2), tf.reduce_mean((model(bounds) - 1) ** 2)]
            loss = tf.reduce_sum(weights * tf.stack(losses))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    batches = enumerate(sliced().batch(BATCH), start=1)
    data = [(x, bounds, tf.constant([1.0, number])) for number, (x, _) in batches]
    return trained(step, model, optimizer, data=data)


def bound_by_fewer_points():
    """Numbers of points that have a common divisor: four inner points for each of the boundary."""
    return bound_by_other_points(BATCH // 4)


def shape_when_traced():
    """A function that a free number of rows breaks, before its optimizer is built."""
    model, optimizer = dense(WIDTH, 8, 1), keras.optimizers.Adam(0.01)

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(x) ** 2) / float(x.shape[0])
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    return trained(step, model, optimizer, data=[(x,) for x, _ in sliced().batch(BATCH)])


def learned_to_learn():
    """The loss after a step of one's own, whose gradient goes through that of the step."""
    model, optimizer = dense(WIDTH, 8, 1), keras.optimizers.SGD(0.1)

    def outputs_by(weights, x):
        return tf.tanh(x @ weights[0] + weights[1]) @ weights[2] + weights[3]

    @tf.function
    def step(x, y):
        weights = [variable.value for variable in model.trainable_variables]
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                before = tf.reduce_mean((outputs_by(weights, x) - y) ** 2)
            gradients = inner.gradient(before, weights)
            moved = [w - 0.3 * g for w, g in zip(weights, gradients, strict=True)]
            after = tf.reduce_mean((outputs_by(moved, x) - y) ** 2)
        gradients = outer.gradient(after, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return before, after

    return trained(step, model, optimizer)


def one_function_for_all():
    """A function that trains or evaluates, as its argument says; it evaluates first."""
    model, optimizer = dense(WIDTH, 8, 1), keras.optimizers.SGD(0.1)
    told = []

    @tf.function
    def step(x, y, train=True):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x) - y[:, None]) ** 2)
        if train:
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    for x, y in sliced().batch(BATCH):
        told.append(float(step(x, y, train=False)))
        told.append(float(step(x, y)))
    return {"losses": told}, [*model.variables, *optimizer.variables]


def policy():
    """A policy's clipped steps, which return the mean change of probabilities: first it is 0."""
    model, optimizer = dense(WIDTH, 16, 2), keras.optimizers.Adam(0.01)

    @tf.function
    def step(x, chosen, gain, before):
        with tf.GradientTape() as tape:
            now = tf.reduce_sum(tf.nn.log_softmax(model(x)) * tf.one_hot(chosen, 2), 1)
            ratio = tf.exp(now - before)
            least = tf.minimum(ratio * gain, tf.clip_by_value(ratio, 0.8, 1.2) * gain)
            loss = -tf.reduce_mean(least)
        gradients = tape.gradient(loss, model.trainable_variables)
        gradients, _ = tf.clip_by_global_norm(gradients, 0.01)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return tf.reduce_mean(before - now)

    changes = []
    for x, y in sliced().batch(BATCH, drop_remainder=True):
        chosen, outputs = tf.cast(y, tf.int32), model(x).numpy().astype("float64")
        before = outputs - np.log(np.exp(outputs).sum(1, keepdims=True))
        before = before[np.arange(BATCH), chosen].astype("float32")
        given = (x, chosen, x[:, 0], tf.constant(before))
        changes += [float(step(*given)) for _ in range(2)]
    return {"changes": changes}, [*model.variables, *optimizer.variables]


KINDS = {
    way.__name__.replace("_", "-"): way
    for way in (
        returned_rows,
        gan_loop,
        constant_noise,
        built_by_the_first_call,
        sums_over_rows,
        decorated,
        follower,
        contrast,
        branch_by_rows,
        learned_to_learn,
        bound_by_other_points,
        bound_by_fewer_points,
        shape_when_traced,
        batch_moments,
        one_function_for_all,
        policy,
    )
}
