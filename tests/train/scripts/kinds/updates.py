"""Train steps in which optimizers make several updates, and that draw noise for each row."""

import keras
import tensorflow as tf
from keras import ops

from kinds.data import BATCH, X

FITTING = {"batch_size": BATCH, "epochs": 2, "shuffle": False, "verbose": 0}
WIDTH, LATENT = 6, 3


def dense(inputs, *widths):
    inner = [keras.layers.Dense(width, "tanh") for width in widths[:-1]]
    return keras.Sequential([keras.Input((inputs,)), *inner, keras.layers.Dense(widths[-1])])


def outcome(model, *rest, x=X, **fitting):
    history = model.fit(x.astype("float32"), **FITTING | fitting).history
    slots = [v for part in rest for v in part.variables]
    weights = [float(ops.sum(ops.abs(v))) for v in model.weights]
    return {"history": history, "weights": weights}, [*model.weights, *slots]


class Gan(keras.Model):
    critics = 1

    def __init__(self):
        super().__init__()
        self.discriminator = dense(WIDTH, 8, 1)
        self.generator = dense(LATENT, 8, WIDTH)
        self.seeds = keras.random.SeedGenerator(5)
        self.d_loss, self.g_loss = (keras.metrics.Mean(name=n) for n in ("d_loss", "g_loss"))

    def compile(self, d_optimizer, g_optimizer):
        super().compile()
        self.d_optimizer, self.g_optimizer = d_optimizer, g_optimizer
        self.loss_of = keras.losses.BinaryCrossentropy(from_logits=True)

    @property
    def metrics(self):
        return [self.d_loss, self.g_loss]

    def noise(self, count):
        return keras.random.normal((count, LATENT), seed=self.seeds)

    def criticize(self, real):
        count = ops.shape(real)[0]
        fake = self.generator(self.noise(count))
        both = ops.concatenate([fake, real], 0)
        labels = ops.concatenate([ops.ones((count, 1)), ops.zeros((count, 1))], 0)
        labels += 0.05 * keras.random.uniform(ops.shape(labels), seed=self.seeds)
        with tf.GradientTape() as tape:
            loss = self.loss_of(labels, self.discriminator(both))
        weights = self.discriminator.trainable_weights
        self.d_optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return loss

    def generate(self, real):
        count = ops.shape(real)[0]
        noise = self.noise(count)
        with tf.GradientTape() as tape:
            judged = self.discriminator(self.generator(noise))
            loss = self.loss_of(ops.zeros((count, 1)), judged)
        weights = self.generator.trainable_weights
        self.g_optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return loss

    def train_step(self, real):
        real = real[0] if isinstance(real, tuple) else real
        for _ in range(self.critics):
            d_loss = self.criticize(real)
        g_loss = self.generate(real)
        self.d_loss.update_state(d_loss)
        self.g_loss.update_state(g_loss)
        return {"d_loss": self.d_loss.result(), "g_loss": self.g_loss.result()}


def compiled(model):
    model.compile(keras.optimizers.Adam(0.01, 0.5), keras.optimizers.Adam(0.02, 0.5))
    return outcome(model, model.d_optimizer, model.g_optimizer)


def gan_with_noise():
    return compiled(Gan())


class WassersteinGan(Gan):
    critics = 3

    def criticize(self, real):
        count = ops.shape(real)[0]
        noise = self.noise(count)
        with tf.GradientTape() as tape:
            fake = self.generator(noise, training=True)
            judged, wanted = self.discriminator(fake), self.discriminator(real)
            mix = keras.random.uniform((count, 1), seed=self.seeds)
            between = real + mix * (fake - real)
            with tf.GradientTape() as inner:
                inner.watch(between)
                value = self.discriminator(between)
            slope = inner.gradient(value, between)
            norm = ops.sqrt(ops.sum(ops.square(slope), 1) + 1e-12)
            loss = ops.mean(judged) - ops.mean(wanted) + 10 * ops.mean((norm - 1) ** 2)
        weights = self.discriminator.trainable_weights
        self.d_optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return loss


def wasserstein_gan():
    return compiled(WassersteinGan())


class CycleGan(keras.Model):
    """One persistent tape, and four updates by gradients that were all taken before the first."""

    def __init__(self):
        super().__init__()
        self.parts = [dense(WIDTH, 5, WIDTH), dense(WIDTH, 5, WIDTH), dense(WIDTH, 5, 1)]
        self.parts.append(dense(WIDTH, 5, 1))

    def compile(self, *optimizers):
        super().compile()
        self.optimizers = list(optimizers)

    def train_step(self, data):
        x = data[0] if isinstance(data, tuple) else data
        there, back, judge_y, judge_x = self.parts
        y = ops.flip(x, 1)
        with tf.GradientTape(persistent=True) as tape:
            fake_y, fake_x = there(x), back(y)
            cycle = ops.mean(ops.abs(back(fake_y) - x)) + ops.mean(ops.abs(there(fake_x) - y))
            losses = [
                cycle + ops.mean((judge_y(fake_y) - 1) ** 2),
                cycle + ops.mean((judge_x(fake_x) - 1) ** 2),
                ops.mean((judge_y(y) - 1) ** 2) + ops.mean(judge_y(fake_y) ** 2),
                ops.mean((judge_x(x) - 1) ** 2) + ops.mean(judge_x(fake_x) ** 2),
            ]
        every = [part.trainable_weights for part in self.parts]
        found = [tape.gradient(a, b) for a, b in zip(losses, every, strict=True)]
        for optimizer, gradients, weights in zip(self.optimizers, found, every, strict=True):
            optimizer.apply_gradients(zip(gradients, weights, strict=True))
        return {f"loss_{index}": loss for index, loss in enumerate(losses)}


def cycle_gan():
    model = CycleGan()
    model.compile(*(keras.optimizers.Adam(0.01) for _ in range(4)))
    return outcome(model, *model.optimizers)


class MovingTarget(keras.Model):
    """A target that follows by a moving average, as BYOL and deep Q-learning have it."""

    def __init__(self):
        super().__init__()
        self.online, self.target = dense(WIDTH, 8, 4), dense(WIDTH, 8, 4)
        self.target.set_weights(self.online.get_weights())
        self.target.trainable = False
        self.predictor = dense(4, 4)

    def train_step(self, data):
        x = data[0] if isinstance(data, tuple) else data
        weights = [*self.online.trainable_weights, *self.predictor.trainable_weights]
        with tf.GradientTape() as tape:
            seen = self.predictor(self.online(x))
            loss = ops.mean((seen - ops.stop_gradient(self.target(ops.flip(x, 1)))) ** 2)
        self.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        for slow, quick in zip(self.target.weights, self.online.weights, strict=True):
            slow.assign(0.9 * slow + 0.1 * quick)
        return {"loss": loss}


def moving_target():
    model = MovingTarget()
    model.compile(keras.optimizers.Adam(0.01))
    return outcome(model, model.optimizer)


class Alternating(keras.Model):
    """An actor that is updated in every third step only, by the step's own counter."""

    turn = 0

    def __init__(self):
        super().__init__()
        self.actor, self.critic = dense(WIDTH, 6, 2), dense(WIDTH + 2, 6, 1)
        self.count = self.add_weight(shape=(), dtype="int64", initializer="zeros", trainable=False)

    def compile(self, actor, critic):
        super().compile()
        self.optimizers = {"actor": actor, "critic": critic}

    def valued(self, x):
        return self.critic(ops.concatenate([x, self.actor(x)], 1))

    def acted(self, x):
        return -ops.mean(self.valued(x))

    def act(self, x):
        weights = self.actor.trainable_weights
        with tf.GradientTape() as tape:
            loss = self.acted(x)
        self.optimizers["actor"].apply_gradients(
            zip(tape.gradient(loss, weights), weights, strict=True)
        )
        return loss

    def train_step(self, data):
        x = data[0] if isinstance(data, tuple) else data
        weights = self.critic.trainable_weights
        with tf.GradientTape() as tape:
            loss = ops.mean((self.valued(x) - ops.sum(x, 1, keepdims=True)) ** 2)
        self.optimizers["critic"].apply_gradients(
            zip(tape.gradient(loss, weights), weights, strict=True)
        )
        turn = self.count.value % 3 == self.turn
        acted = tf.cond(turn, lambda: self.act(x), lambda: tf.constant(0.0))
        self.count.assign_add(1)
        return {"critic": loss, "actor": acted}


class LateAcrossRows(Alternating):
    """The first update of its actor, which no part of the rows knows, is that of the third step."""

    turn = 2

    def acted(self, x):
        values = self.valued(x)
        return -ops.mean((values - ops.mean(values)) ** 2)


def alternating(kind=Alternating):
    model = kind()
    model.compile(keras.optimizers.SGD(0.02), keras.optimizers.Adam(0.01))
    return outcome(model, *model.optimizers.values())


def late_across_rows():
    return alternating(LateAcrossRows)


class Autoencoder(keras.Model):
    """A variational one, whose layer draws a row of noise for each row."""

    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = dense(WIDTH, 8, 2 * LATENT), dense(LATENT, 8, WIDTH)
        self.seeds = keras.random.SeedGenerator(3)

    def call(self, x):
        mean, log = ops.split(self.encoder(x), 2, 1)
        return mean + ops.exp(log / 2) * keras.random.normal(ops.shape(mean), seed=self.seeds)

    def train_step(self, data):
        x = data[0] if isinstance(data, tuple) else data
        with tf.GradientTape() as tape:
            loss = ops.mean(ops.sum((self.decoder(self(x)) - x) ** 2, 1))
        weights = self.trainable_weights
        self.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return {"loss": loss}


def autoencoder():
    model = Autoencoder()
    model.compile(keras.optimizers.Adam(0.01))
    return outcome(model, model.optimizer)


class AcrossRows(Gan):
    """A discriminator that sees how alike the rows of a batch are, which no part of it knows."""

    def generate(self, real):
        count = ops.shape(real)[0]
        noise = self.noise(count)
        with tf.GradientTape() as tape:
            fake = self.generator(noise)
            alike = ops.mean((fake - ops.mean(fake, 0)) ** 2)
            loss = self.loss_of(ops.zeros((count, 1)), self.discriminator(fake)) - alike
        weights = self.generator.trainable_weights
        self.g_optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return loss


def gan_across_rows():
    return compiled(AcrossRows())


def synchronized():
    """BatchNormalization of plain values and of masked steps, which see the rows of all ranks."""
    norm = keras.layers.BatchNormalization
    inputs = keras.Input((WIDTH,))
    steps = keras.layers.Reshape((WIDTH, 1))(norm(synchronized=True)(inputs))
    steps = keras.layers.Masking(0.0)(keras.layers.ReLU()(steps))
    hidden = keras.layers.LSTM(4, return_sequences=True)(norm(synchronized=True)(steps))
    hidden = norm(synchronized=True, renorm=True)(keras.layers.Flatten()(hidden))
    model = keras.Model(inputs, keras.layers.Dense(WIDTH)(keras.layers.Dropout(0.2)(hidden)))
    model.compile(keras.optimizers.SGD(0.05, momentum=0.9), "mse")
    history = model.fit(X, X, validation_data=(X[:20], X[:20]), **FITTING).history
    weights = [float(ops.sum(ops.abs(v))) for v in model.weights]
    return {"history": history, "weights": weights}, model.variables


class OwnLossScale(keras.Model):
    """An optimizer of its own, which asks in Python whether it is built when it scales a loss."""

    def __init__(self):
        super().__init__()
        self.inner = dense(WIDTH, 8, WIDTH)
        self.own = keras.optimizers.LossScaleOptimizer(
            keras.optimizers.SGD(0.05), initial_scale=256.0, dynamic_growth_steps=3
        )

    def train_step(self, data):
        rows = data[0] if isinstance(data, tuple) else data
        with tf.GradientTape() as tape:
            loss = ops.mean(ops.square(self.inner(rows) - rows))
            scaled = self.own.scale_loss(loss)
        weights = self.inner.trainable_variables
        self.own.apply(tape.gradient(scaled, weights), weights)
        return {"loss": loss}


def own_loss_scale():
    model = OwnLossScale()
    model.compile()
    return outcome(model, model.own)


class MadeByItsStep(keras.Model):
    """Layers are called first in another order than in ``call``, and a metric is made late.

    The optimizer is given a part of the variables, and overwrites these alone by their averages.
    """

    def __init__(self, copies):
        super().__init__()
        self.first, self.second = keras.layers.MultiHeadAttention(2, 4), Projection()
        self.teacher, self.copies = keras.layers.Dense(WIDTH, trainable=True), copies

    def call(self, x):
        return self.second(self.first(x[:, None], x[:, None])[:, 0])

    def train_step(self, data):
        rows = data[0] if isinstance(data, tuple) else data
        if not hasattr(self, "late"):
            self.late = keras.metrics.Mean()
        with tf.GradientTape() as tape:
            prior = ops.mean(ops.square(self.second(rows)))
            loss = ops.mean(ops.square(self(rows) - rows)) + 0.1 * prior
        weights = [*self.first.trainable_variables, *self.second.trainable_variables]
        self.optimizer.apply(tape.gradient(loss, weights), weights)
        self.late.update_state(loss)
        self.teacher(rows)
        for mean, weight in zip(self.teacher.variables, self.second.variables, strict=False):
            mean.assign(0.9 * mean + 0.1 * weight)
            if self.copies:
                self.kept = getattr(self, "kept", None) or [tf.Variable(weight, trainable=False)]
                self.kept[0].assign_add(0.1 * weight)
        return {"late": self.late.result()}


class Projection(keras.layers.Layer):
    def build(self, shape):
        size = (shape[-1], WIDTH)
        self.kernel = self.add_weight(shape=size, initializer="glorot_uniform")

    def call(self, x):
        return ops.matmul(x, self.kernel)


def made_by_its_step(copies=False):
    model = MadeByItsStep(copies)
    averages = {"use_ema": True, "ema_momentum": 0.9, "ema_overwrite_frequency": 2}
    model.compile(keras.optimizers.SGD(0.05, momentum=0.9, **averages))
    return outcome(model, model.optimizer)


def copied_in_its_step():
    return made_by_its_step(copies=True)


KINDS = {
    "made-by-its-step": made_by_its_step,
    "copied-in-its-step": copied_in_its_step,
    "own-loss-scale": own_loss_scale,
    "synchronized": synchronized,
    "gan-with-noise": gan_with_noise,
    "wasserstein-gan": wasserstein_gan,
    "cycle-gan": cycle_gan,
    "moving-target": moving_target,
    "alternating": alternating,
    "autoencoder": autoencoder,
    "gan-across-rows": gan_across_rows,
    "late-across-rows": late_across_rows,
}
