"""Scripts that change in Python what a traced step reads: it has an effect at some times only."""

import keras
import tensorflow as tf

from kinds.data import BATCH, X, Y, fitted

EPOCHS = 3
COLUMN = Y[:, None]


class Scaled(keras.losses.Loss):
    """Mean squared error times a factor that is a number of Python."""

    def __init__(self):
        super().__init__()
        self.factor = 1.0

    def call(self, y_true, y_pred):
        return self.factor * keras.ops.square(y_true - y_pred)


class Judged(keras.Model):
    """Multiplies what it returns of a test by a number of Python."""

    factor = 1.0

    def test_step(self, data):
        logs = super().test_step(data)
        return {name: self.factor * value for name, value in logs.items()}


def parts():
    layers = [keras.layers.Dense(8, "tanh"), keras.layers.Dropout(0.1), keras.layers.Dense(1)]
    model = keras.Sequential([keras.Input((6,)), *layers])
    loss = Scaled()
    model.compile(keras.optimizers.Adam(0.01), loss)
    return model, loss


def trained(model, changes, **options):
    """The numbers of a fit with *changes*: methods of a callback, by name."""
    callback = keras.callbacks.Callback()
    for name, change in changes.items():
        setattr(callback, name, change)
    given = {"batch_size": BATCH, "shuffle": False, "epochs": EPOCHS, **options}
    return fitted(model, X, COLUMN, callbacks=[callback], **given)


def set_before_training():
    """A factor of the loss; what is changed after the first step has no effect."""
    model, loss = parts()

    def begin(logs):
        loss.factor = 0.3

    def batch_end(batch, logs):
        loss.factor = 5.0

    first, _ = trained(model, {"on_train_begin": begin, "on_train_batch_end": batch_end})
    second, variables = trained(model, {"on_epoch_begin": lambda epoch, logs: begin(logs)})
    return {"first": first, "second": second}, variables


def set_before_epochs():
    """Layers that are frozen and a rate of dropout that is raised; the first epoch's count."""
    model, _ = parts()
    model.layers[-1].trainable = False
    model.compile(keras.optimizers.Adam(0.01), "mse")

    def epoch_begin(epoch, logs):
        model.layers[0].trainable = epoch > 0
        model.layers[-1].trainable = True
        model.layers[1].rate = 0.2 + 0.1 * epoch

    return trained(model, {"on_epoch_begin": epoch_begin})


def set_before_batches():
    """A list that a step of the model's own reads, and several optimizers use."""

    class Pair(keras.Model):
        def __init__(self):
            super().__init__()
            self.one, self.other = keras.layers.Dense(1), keras.layers.Dense(1)
            self.second = keras.optimizers.SGD(0.1)
            self.factors = [1.0, 1.0]

        def call(self, x):
            return self.one(x) + self.other(x)

        def train_step(self, data):
            x, y = data
            for factor, layer, optimizer in zip(
                self.factors, [self.one, self.other], [self.optimizer, self.second], strict=True
            ):
                with tf.GradientTape() as tape:
                    loss = factor * keras.ops.mean(keras.ops.square(self(x) - y))
                weights = layer.trainable_variables
                optimizer.apply(tape.gradient(loss, weights), weights)
            return {"value": loss}

    model = Pair()
    model.compile(keras.optimizers.SGD(0.1))

    def batch_begin(batch, logs):
        model.factors[:] = [0.5, 0.2 + 0.1 * batch]

    return trained(model, {"on_train_batch_begin": batch_begin})


def set_and_traced_again():
    """A factor of the loss that is used once the train function is made anew."""
    model, loss = parts()

    def epoch_begin(epoch, logs):
        loss.factor = 1.0 / (1 + epoch)
        if epoch == 1:
            model.make_train_function(force=True)

    return trained(model, {"on_epoch_begin": epoch_begin})


def set_beside_validation():
    """A factor that a test step reads, in the first validation only."""
    inputs = keras.Input((6,))
    model = Judged(inputs, keras.layers.Dense(1)(inputs))
    model.compile(keras.optimizers.Adam(0.01), "mse")

    def epoch_begin(epoch, logs):
        model.factor = 2.0 + epoch

    return trained(model, {"on_epoch_begin": epoch_begin}, validation_data=(X, COLUMN))


def set_between_evaluations():
    """A factor that a test step reads, and a loss of which training reads another value."""
    model, loss = parts()
    results = []
    for factor in (0.5, 2.0):
        loss.factor = factor
        results.append(model.evaluate(X, COLUMN, batch_size=BATCH, verbose=0))
    numbers, variables = trained(model, {})
    loss.factor = 4.0
    results.append(model.evaluate(X, COLUMN, batch_size=BATCH, verbose=0))
    model.compile(model.optimizer, loss)
    results.append(model.evaluate(X, COLUMN, batch_size=BATCH, verbose=0))
    return {**numbers, "results": results}, variables


FACTOR = 1.0


def set_in_a_loop():
    """A global of the script that a function reads when it is traced, for each form of batch."""
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(1)])
    optimizer = keras.optimizers.SGD(0.1)

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = FACTOR * keras.ops.mean(keras.ops.square(model(x) - y))
        weights = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return loss

    losses = []
    for epoch in range(EPOCHS):
        globals()["FACTOR"] = 1.0 / (1 + epoch)
        for rows in (BATCH, BATCH, BATCH // 2 if epoch else BATCH):
            losses.append(float(step(X[:rows], COLUMN[:rows])))
    return {"losses": losses}, [*model.variables, *optimizer.variables]


KINDS = {
    "python-before-training": set_before_training,
    "python-before-epochs": set_before_epochs,
    "python-before-batches": set_before_batches,
    "python-traced-again": set_and_traced_again,
    "python-beside-validation": set_beside_validation,
    "python-between-evaluations": set_between_evaluations,
    "python-in-a-loop": set_in_a_loop,
}
