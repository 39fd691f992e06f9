"""Kinds of models, losses, optimizers and train steps."""

import keras
import tensorflow as tf

from kinds.data import BATCH, ROWS, X, Y, classifier, compiled, fitted, generator, sliced

TOKENS = generator.integers(1, 20, size=(ROWS, 5)).astype("int32")
TOKENS[::3, 3:] = 0
FITTING = {"batch_size": BATCH}


def functional():
    inputs = keras.Input((6,))
    hidden = keras.layers.Dense(6, "tanh")(inputs)
    outputs = keras.layers.Dense(1, "sigmoid")(hidden + inputs)
    return fitted(compiled(keras.Model(inputs, outputs)), X, Y, **FITTING)


class Own(keras.Model):
    def __init__(self):
        super().__init__()
        self.hidden = keras.layers.Dense(8, "tanh", kernel_regularizer="l2")
        self.out = keras.layers.Dense(1, "sigmoid")

    def call(self, inputs, training=False):
        return self.out(self.hidden(inputs))


def subclassed():
    return fitted(compiled(Own()), sliced().batch(BATCH))


class OwnStep(Own):
    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(y=y, y_pred=self(x, training=True))
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        return {"own": loss}


def own_train_step():
    model = OwnStep()
    model.compile(keras.optimizers.SGD(0.1), "binary_crossentropy")
    return fitted(model, sliced().batch(BATCH))


def embedding():
    inner = [keras.layers.Embedding(20, 4), keras.layers.Flatten()]
    model = keras.Sequential(
        [keras.Input((5,), dtype="int32"), *inner, keras.layers.Dense(1, "sigmoid")]
    )
    return fitted(compiled(model), TOKENS, Y, **FITTING)


def lstm():
    inner = [keras.layers.Embedding(20, 4, mask_zero=True), keras.layers.LSTM(4)]
    model = keras.Sequential(
        [keras.Input((5,), dtype="int32"), *inner, keras.layers.Dense(1, "sigmoid")]
    )
    return fitted(compiled(model), TOKENS, Y, **FITTING)


def masked_loss():
    inner = [
        keras.layers.Embedding(20, 4, mask_zero=True),
        keras.layers.LSTM(4, return_sequences=True),
    ]
    model = keras.Sequential([keras.Input((5,), dtype="int32"), *inner, keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.1), "mse")
    targets = TOKENS[..., None].astype("float32") / 20
    return fitted(model, TOKENS, targets, validation_data=(TOKENS, targets), **FITTING)


def summed_loss():
    model = classifier()
    loss = keras.losses.BinaryCrossentropy(reduction="sum")
    model.compile(keras.optimizers.SGD(0.01), loss, metrics=["accuracy"])
    return fitted(model, X, Y, validation_data=(X, Y), **FITTING)


def loss_scaling():
    optimizer = keras.optimizers.SGD(0.1)
    scaled = keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=256.0)
    return fitted(classifier(scaled), X, Y, **FITTING)


def clipping():
    return fitted(classifier(keras.optimizers.SGD(0.5, global_clipnorm=0.05)), X, Y, **FITTING)


class ByNorm(keras.optimizers.SGD):
    def apply_gradients(self, grads_and_vars):
        pairs = [(g / (keras.ops.norm(g) + 1e-6), v) for g, v in grads_and_vars]
        return super().apply_gradients(pairs)


def normalized_gradients():
    return fitted(classifier(ByNorm(0.05)), X, Y, **FITTING)


def accumulation():
    optimizer = keras.optimizers.SGD(0.1, gradient_accumulation_steps=3)
    return fitted(classifier(optimizer), X, Y, **FITTING)


def schedule():
    rate = keras.optimizers.schedules.CosineDecay(0.2, 12)
    return fitted(classifier(keras.optimizers.SGD(rate)), sliced().batch(BATCH))


def eager():
    return fitted(classifier(run_eagerly=True), sliced().batch(BATCH), epochs=1)


def several_models():
    first, second = classifier(), compiled(Own())
    numbers = [fitted(m, X, Y, epochs=1, **FITTING)[0] for m in (first, second, first)]
    return numbers, [*first.variables, *second.variables]


def refused_first():
    """Fits that end in an error, which the script catches, before one that does not."""
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(1, "sigmoid")])
    caught = []
    for x, y in ((X, Y), (X, Y[:-1])):
        try:
            model.fit(x, y, verbose=0, **FITTING)
        except ValueError:
            caught.append(len(caught))
            compiled(model)
    numbers, variables = fitted(model, X, Y, **FITTING)
    return [caught, numbers], variables


class Gan(keras.Model):
    """Two networks with an optimizer each, trained in one step."""

    def __init__(self):
        super().__init__()
        self.forger = keras.Sequential([keras.Input((4,)), keras.layers.Dense(6)])
        self.judge = keras.Sequential([keras.Input((6,)), keras.layers.Dense(1)])
        self.noise = keras.random.SeedGenerator(5)

    def compile(self, forging, judging):
        super().compile()
        self.forging, self.judging = forging, judging
        self.tracker = keras.metrics.Mean(name="judged")

    @property
    def metrics(self):
        return [self.tracker]

    def train_step(self, data):
        loss_of = keras.losses.BinaryCrossentropy(from_logits=True)
        count = tf.shape(data)[0]
        forged = self.forger(keras.random.normal((count, 4), seed=self.noise))
        with tf.GradientTape() as tape:
            judged = self.judge(tf.concat([data, forged], 0))
            truth = tf.concat([tf.ones((count, 1)), tf.zeros((count, 1))], 0)
            loss = loss_of(truth, judged)
        weights = self.judge.trainable_weights
        self.judging.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        with tf.GradientTape() as tape:
            forged = self.forger(keras.random.normal((count, 4), seed=self.noise))
            fooled = loss_of(tf.ones((count, 1)), self.judge(forged))
        weights = self.forger.trainable_weights
        self.forging.apply_gradients(zip(tape.gradient(fooled, weights), weights, strict=True))
        self.tracker.update_state(loss)
        return {"judged": self.tracker.result(), "fooled": fooled}


def gan():
    model = Gan()
    model.compile(keras.optimizers.Adam(1e-4), keras.optimizers.Adam(1e-4))
    history = model.fit(sliced(X).map(lambda x: x).batch(BATCH), epochs=2, verbose=0).history
    return history, [*model.variables, *model.forging.variables, *model.judging.variables]


def batch_norm():
    inner = [keras.layers.Dense(8), keras.layers.BatchNormalization(), keras.layers.Dropout(0.2)]
    model = keras.Sequential([keras.Input((6,)), *inner, keras.layers.Dense(1, "sigmoid")])
    return fitted(compiled(model), X, Y, epochs=6, **FITTING)


class Reconstructing(keras.Model):
    """Calls its decoder, which has no input shape, in its train step only."""

    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = keras.layers.Dense(4, "tanh"), keras.layers.Dense(6)
        self.told = keras.metrics.Mean(name="told")

    def train_step(self, data):
        x, _ = data
        with tf.GradientTape() as tape:
            loss = self.loss(x, self.decoder(self.encoder(x)))
        weights = self.trainable_weights
        self.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        self.told.update_state(loss)
        return {"told": self.told.result()}


class Encoding(Reconstructing):
    def call(self, x):
        return self.encoder(x)


class Helped(keras.Model):
    """Has a second output in training only, whose loss it adds."""

    def __init__(self):
        super().__init__()
        self.head, self.helper = keras.layers.Dense(1), keras.layers.Dense(2)

    def call(self, x, training=False):
        if training:
            self.add_loss(keras.ops.mean(keras.ops.square(self.helper(x))))
        return self.head(x)


def built_in_training():
    """Layers that are called nowhere but in the train step, or in a training call."""
    found, variables = [], []
    for kind, options in (
        (Reconstructing, {}), (Encoding, {}), (Helped, {}), (Helped, {"run_eagerly": True})
    ):  # fmt: skip
        model = kind()
        model.compile(keras.optimizers.Adam(0.01), keras.losses.MeanAbsoluteError(), **options)
        numbers, own = fitted(model, X, Y[:, None], batch_size=BATCH, shuffle=False)
        found.append(numbers)
        variables += own
    return found, variables


def errors_of_shapes():
    """Errors of a layer that does not fit, and the shape of a model that an evaluation builds."""
    told = []
    for call in ("evaluate", "predict", "train_on_batch", "fit"):
        model = compiled(keras.Sequential([keras.layers.Dense(1), keras.layers.Reshape((7,))]))
        try:
            getattr(model, call)(*([X] if call == "predict" else [X, Y]))
        except ValueError as error:
            told.append("must be unchanged" in str(error))
    model = compiled(keras.Sequential([keras.layers.Dense(1)]))
    model.evaluate(X, Y, batch_size=BATCH, verbose=0)
    return {"told": told, "rows": model.input_shape[0] or 0}, model.variables


KINDS = {
    way.__name__.replace("_", "-"): way
    for way in (
        functional, subclassed, own_train_step, embedding, lstm, masked_loss, summed_loss,
        loss_scaling, clipping, normalized_gradients, accumulation, schedule, eager, several_models,
        refused_first, gan, batch_norm, errors_of_shapes,
        built_in_training,
    )
}  # fmt: skip
