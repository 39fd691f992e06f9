"""The trial finds what looks across the rows of a batch, and lets the rest be shared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from matex import keras_hooks
from matex.errors import SeveralUpdatesFound
from matex.fitting.loops.script_arguments import ScriptArguments
from matex.keras_hooks import script_model
from matex.sources.stream_batch import StreamBatch
from matex.steps.separability.step_separability import find_inseparable
from matex.steps.separability.update_separability import find_inseparable_update
from matex.steps.several_updates_step import SeveralUpdatesStep
from matex.steps.step import Step
from tests import slow

pytestmark = pytest.mark.usefixtures("optimizers_that_can_be_replaced")

ROWS, WIDTH, SIZE = 16, 6, 4
# Until a callback sets them.
ZERO, SETS = tf.Variable(0.0, trainable=False), tf.Variable(0.0, trainable=False)
FACTOR = tf.Variable(1.0, trainable=False)
FLAG, COUNTER = tf.Variable(False, trainable=False), tf.Variable(0, trainable=False)
Loss = Callable[[Any, Any], Any]


def unit(p: Any) -> Any:
    return tf.math.l2_normalize(p, 1)


def alike(p: Any) -> Any:
    """The likeness of each two rows, shape (rows, rows)."""
    return tf.matmul(unit(p), unit(p), transpose_b=True)


def distances(p: Any) -> Any:
    return tf.reduce_sum((p[:, None] - p[None]) ** 2, 2)


def same(y: Any) -> Any:
    return tf.cast(tf.equal(y[:, None] > 0, y[None] > 0), tf.float32)


def centred(p: Any) -> Any:
    return p - tf.reduce_mean(p, 0)


def correlation(p: Any) -> Any:
    scaled = centred(p) / (tf.math.reduce_std(p, 0) + 1e-3)
    return tf.matmul(scaled, scaled, transpose_a=True) / tf.cast(tf.shape(p)[0], tf.float32)


def rowwise(y: Any, p: Any) -> Any:
    return (p[:, 0] - y) ** 2


def triplets(y: Any, p: Any) -> Any:
    gaps = distances(p)
    positive = tf.reduce_max(gaps * same(y), 1)
    negative = tf.reduce_min(gaps + 1e3 * same(y), 1)
    return tf.reduce_mean(tf.nn.softplus(positive - tf.minimum(negative, 10.0)))


def supervised_contrast(y: Any, p: Any) -> Any:
    logits = alike(p) / 0.5 - 1e3 * tf.eye(tf.shape(p)[0])
    return -tf.reduce_mean(tf.reduce_sum(tf.nn.log_softmax(logits) * same(y), 1) / 100)


def partial_likelihood(y: Any, p: Any) -> Any:
    at_risk = tf.cast(y[None] >= y[:, None], tf.float32)
    return -tf.reduce_mean(p[:, 0] - tf.math.log(tf.reduce_sum(at_risk * tf.exp(p[:, 0]), 1)))


def soft_f1(y: Any, p: Any) -> Any:
    truth, chance = tf.cast(y > 0, tf.float32), tf.sigmoid(p[:, 0])
    return 1 - 2 * tf.reduce_sum(truth * chance) / tf.reduce_sum(truth + chance + 1e-3)


def concordance(y: Any, p: Any) -> Any:
    a, b = centred(p[:, 0]), centred(y)
    spread = tf.reduce_mean(a**2) + tf.reduce_mean(b**2) + 1e-3
    return 1 - 2 * tf.reduce_mean(a * b) / spread


def pearson(y: Any, p: Any) -> Any:
    a, b = centred(p[:, 0]), centred(y)
    return -tf.reduce_sum(a * b) / tf.sqrt(tf.reduce_sum(a**2) * tf.reduce_sum(b**2) + 1e-3)


def prototypes(y: Any, p: Any) -> Any:
    is_one = tf.cast(y > 0, tf.float32)[:, None]
    centres = [tf.reduce_sum(p * m, 0) / (tf.reduce_sum(m) + 1e-3) for m in (is_one, 1 - is_one)]
    gaps = tf.stack([tf.reduce_sum((p - centre) ** 2, 1) for centre in centres], 1)
    return tf.reduce_mean(-tf.nn.log_softmax(-gaps)[:, 0] * is_one[:, 0])


def frequencies(y: Any) -> Any:
    """Numbers of rows of the class of each row."""
    kinds = tf.cast(y > 0, tf.int32)
    return tf.cast(tf.gather(tf.math.bincount(kinds, minlength=2), kinds), tf.float32)


def transport(y: Any, p: Any) -> Any:
    kernel = tf.exp(-distances(p))
    for _ in range(3):
        kernel /= tf.reduce_sum(kernel, 1, keepdims=True)
        kernel /= tf.reduce_sum(kernel, 0, keepdims=True)
    return tf.reduce_mean(kernel * distances(p))


ACROSS: dict[str, Loss] = {
    "contrast": lambda y, p: tf.reduce_mean(
        tf.reduce_logsumexp(alike(p), 1) - tf.linalg.diag_part(alike(p))
    ),
    "supervised-contrast": supervised_contrast,
    "two-towers": lambda y, p: -tf.reduce_mean(
        tf.linalg.diag_part(tf.nn.log_softmax(tf.matmul(p[:, :2], p[:, 2:], transpose_b=True)))
    ),
    "hardest-triplets": triplets,
    "pairs": lambda y, p: tf.reduce_mean(same(y) * distances(p)),
    "ranks-of-pairs": lambda y, p: tf.reduce_mean(
        tf.nn.softplus(-tf.sign(y[:, None] - y[None]) * (p[:, 0][:, None] - p[:, 0][None]))
    ),
    "rank-list": lambda y, p: -tf.reduce_mean(tf.nn.softmax(y) * tf.nn.log_softmax(p[:, 0])),
    "partial-likelihood": partial_likelihood,
    "soft-f1": soft_f1,
    "dice": lambda y, p: 1 - tf.reduce_sum(tf.sigmoid(p)) / tf.reduce_sum(1 + tf.sigmoid(p)),
    "concordance": concordance,
    "pearson": pearson,
    "explained-variance": lambda y, p: tf.reduce_sum(rowwise(y, p))
    / tf.reduce_sum(centred(y) ** 2),
    "root-of-the-mean": lambda y, p: tf.sqrt(tf.reduce_mean(rowwise(y, p))),
    "log-of-the-mean": lambda y, p: tf.math.log(tf.reduce_mean(tf.exp(p[:, 0]))),
    "square-of-the-mean": lambda y, p: tf.reduce_mean(p) ** 2,
    "standardised-losses": lambda y, p: tf.reduce_mean(
        tf.tanh(rowwise(y, p) / (tf.math.reduce_std(rowwise(y, p)) + 1e-3))
    ),
    "largest": lambda y, p: tf.reduce_max(rowwise(y, p)),
    "hard-half": lambda y, p: tf.reduce_mean(
        tf.sort(rowwise(y, p))[tf.shape(y)[0] // 2 :]
    ),
    "median": lambda y, p: tf.sort(rowwise(y, p))[tf.shape(y)[0] // 2],
    "by-sum-of-weights": lambda y, p: tf.reduce_sum(tf.sigmoid(p[:, 1]) * rowwise(y, p))
    / tf.reduce_sum(tf.sigmoid(p[:, 1])),
    "by-number-of-ones": lambda y, p: tf.reduce_sum(tf.nn.relu(y) * rowwise(y, p))
    / (tf.reduce_sum(tf.cast(y > 0, tf.float32)) + 1e-3),
    "redundancy": lambda y, p: tf.reduce_mean((correlation(p) - tf.eye(SIZE)) ** 2),
    "variance": lambda y, p: tf.reduce_mean(tf.nn.relu(1 - tf.math.reduce_std(p, 0))),
    "covariance": lambda y, p: tf.reduce_mean(
        tf.matmul(centred(p), centred(p), transpose_a=True) ** 2
    ),
    "entropy-of-the-mean": lambda y, p: tf.reduce_sum(
        tf.reduce_mean(tf.nn.softmax(p), 0) * tf.math.log(tf.reduce_mean(tf.nn.softmax(p), 0))
    ),
    "mean-discrepancy": lambda y, p: tf.reduce_mean(tf.exp(-distances(p)) * tf.sign(y)[:, None]
                                                    * tf.sign(y)[None]),
    "own-centre": lambda y, p: tf.reduce_mean(tf.reduce_sum(centred(p) ** 2, 1)),
    "prototypes": prototypes,
    "transport": transport,
    "volume": lambda y, p: -tf.linalg.logdet(alike(p) + 0.5 * tf.eye(tf.shape(p)[0])),
    "neighbours": lambda y, p: tf.reduce_mean((p[1:, 0] - p[:-1, 0]) ** 2),
    "shuffled-partners": lambda y, p: tf.reduce_mean((p - tf.reverse(p, [0])) ** 2),
    "discrimination": lambda y, p: tf.reduce_mean(
        rowwise(y, p) * tf.reduce_sum(tf.exp(-distances(p)), 1)
    ),
    "row-numbers": lambda y, p: tf.reduce_mean(
        rowwise(y, p) * tf.cast(tf.range(tf.shape(y)[0]), tf.float32)
    ),
    "product": lambda y, p: tf.reduce_prod(tf.sigmoid(p[:, 0]) + 0.5),
}  # fmt: skip


def assigned_later(p: Any) -> Any:
    """The factor of a penalty, which a branch sets anew."""
    return tf.cond(
        SETS > 0.0, lambda: FACTOR.assign(tf.abs(tf.reduce_mean(p))), lambda: tf.identity(FACTOR)
    )


LATER: dict[str, Loss] = {
    "in-a-branch": lambda y, p: tf.reduce_mean(rowwise(y, p))
    + tf.cond(SETS > 0.0, lambda: tf.square(tf.reduce_mean(p)), lambda: tf.reduce_mean(p)),
    "in-a-function": lambda y, p: tf.reduce_mean(rowwise(y, p))
    + tf.function(tf.nn.relu)(tf.reduce_mean(p) - 1e3),
    "assigned-in-a-branch": lambda y, p: tf.reduce_mean(rowwise(y, p))
    * tf.stop_gradient(assigned_later(p)),
    "above-a-threshold": lambda y, p: tf.maximum(tf.reduce_mean(rowwise(y, p)), 1e-6),
    "below-a-threshold": lambda y, p: tf.reduce_mean(rowwise(y, p))
    + tf.nn.relu(tf.reduce_mean(y * p[:, 0]) - 1e3),
    "flooded": lambda y, p: tf.abs(tf.reduce_mean(rowwise(y, p)) - 1e-6),
    "classes-in-the-batch": lambda y, p: tf.reduce_mean(rowwise(y, p))
    * tf.cast(tf.size(tf.unique(tf.cast(y / 9, tf.int32))[0]), tf.float32),
    "kinds-of-which-one-is-missing": lambda y, p: sum(
        tf.math.divide_no_nan(tf.reduce_sum(part), tf.cast(tf.size(part), tf.float32))
        for part in tf.dynamic_partition(rowwise(y, p), tf.cast(y > 1e3, tf.int32), 2)
    ),
    "if-many-are-selected": lambda y, p: tf.where(
        tf.size(tf.where(y > 0)) > 100, 2.0, 1.0
    ) * tf.reduce_mean(rowwise(y, p)),
    "times-zero": lambda y, p: tf.reduce_mean(rowwise(y, p)) + 0.0 * tf.reduce_mean(p) ** 2,
    "times-a-variable": lambda y, p: tf.reduce_mean(rowwise(y, p))
    + ZERO * tf.reduce_mean(p) * tf.reduce_mean(y),
}  # fmt: skip
BY_ROW: dict[str, Loss] = {
    "squares": lambda y, p: tf.reduce_mean(rowwise(y, p)),
    "by-count": lambda y, p: tf.reduce_sum(rowwise(y, p)) / tf.cast(tf.shape(y)[0], tf.float32),
    "huber": lambda y, p: tf.reduce_mean(tf.nn.softplus(tf.abs(p[:, 0] - y))),
    "crossentropy": lambda y, p: tf.reduce_mean(
        tf.nn.sigmoid_cross_entropy_with_logits(tf.cast(y > 0, tf.float32), p[:, 0])
    ),
    "within-a-row": lambda y, p: -tf.reduce_mean(tf.reduce_max(tf.nn.log_softmax(p), 1)),
    "weights-of-rows": lambda y, p: tf.reduce_mean(tf.nn.relu(y) * rowwise(y, p)),
    "sum-of-selected": lambda y, p: (
        tf.reduce_sum(tf.boolean_mask(rowwise(y, p), y > 0)) / tf.cast(tf.shape(y)[0], tf.float32)
    ),
    "looked-up-by-classes": lambda y, p: tf.reduce_mean(
        p[:, 0] * tf.gather(*tf.unique(tf.cast(y > 0, tf.float32)))
    ),
    "constant-beside": lambda y, p: tf.reduce_mean(rowwise(y, p)) + 3.0,
}


def batch() -> StreamBatch:
    generator = np.random.default_rng(2)
    x = generator.normal(size=(ROWS, WIDTH)).astype("float32")
    y = np.where(np.arange(ROWS) % 3, 1.0, -1.0) * generator.uniform(0.5, 1.5, ROWS)
    tensors = [tf.constant(x), tf.constant(y, tf.float32)]
    return StreamBatch(tensors, (0, ROWS), digest=1, last=False)


SIGNATURE = (tf.TensorSpec((None, WIDTH)), tf.TensorSpec((None,)))


def network() -> keras.Model:
    keras.utils.set_random_seed(1)
    return keras.Sequential([keras.Input((WIDTH,)), layers.Dense(8, "tanh"), layers.Dense(SIZE)])


def reason_in_a_fit(
    loss: Loss, metric: keras.metrics.Metric | None = None, *, run_eagerly: bool = False
) -> str:
    class Trained(keras.Model):
        def train_step(self, data: Any) -> dict[str, Any]:
            x, y = data
            with tf.GradientTape() as tape:
                value = loss(y, inner(x, training=True))
            weights = inner.trainable_variables
            self.optimizer.apply(tape.gradient(value, weights), weights)
            if metric is not None:
                metric.update_state(y)
            return {"loss": value}

    inner = network()
    model = Trained(inner.inputs, inner.outputs)
    model.counted = metric
    model.compile(keras.optimizers.SGD(0.1), run_eagerly=run_eagerly)
    keras_hooks.build(model, keras_hooks.as_data(SIGNATURE))
    return find_inseparable(Step(model, SIGNATURE), batch(), ranks=2)


def reason_in_a_loop(loss: Loss, metric: keras.metrics.Metric | None = None) -> str:
    inner, optimizer = network(), keras.optimizers.SGD(0.1, momentum=0.9)

    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            value = loss(y, inner(x, training=True))
        weights = inner.trainable_variables
        optimizer.apply(tape.gradient(value, weights), weights)
        if metric is not None:
            metric.update_state(y)
        return value

    def as_data(tensors: Any) -> Any:
        return tuple(tensors), {}

    model = script_model("step", step, SIGNATURE, as_data)
    shared = SeveralUpdatesStep(model, SIGNATURE, as_data=as_data, rows=ROWS)
    return find_inseparable_update(shared, batch(), ranks=2)


class Counted(keras.metrics.Metric):
    """A metric whose state is a function of what it was and of the rows."""

    def __init__(self, start: float, rule: Callable[[Any, Any], Any]) -> None:
        super().__init__(name="counted")
        initializer = keras.initializers.Constant(start)
        self.state = self.add_variable(shape=(), initializer=initializer, name="state")
        self.rule = rule

    def update_state(self, values: Any, sample_weight: Any = None) -> None:
        self.state.assign(self.rule(self.state, tf.abs(values)))

    def result(self) -> Any:
        return self.state + 0.0


FORGETTING: dict[str, tuple[float, Callable[[Any, Any], Any]]] = {
    "least": (1e3, lambda s, v: tf.minimum(s, tf.reduce_min(v))),
    "least-from-infinity": (np.inf, lambda s, v: tf.minimum(s, tf.reduce_min(v))),
    "largest-below-zero": (-1.0, lambda s, v: tf.maximum(s, tf.reduce_max(-v / 3))),
    "decaying-sum": (0.0, lambda s, v: 0.9 * s + tf.reduce_sum(v)),
    "last-batch": (0.0, lambda s, v: tf.reduce_sum(v) + 0.0 * s),
}


REASONS = {"fit": reason_in_a_fit, "loop": reason_in_a_loop}
LATE = ["below-a-threshold", "times-a-variable", "classes-in-the-batch", "if-many-are-selected"]
SOME = ["contrast", "hardest-triplets", "by-sum-of-weights", "row-numbers"]


@pytest.mark.parametrize("place", REASONS)
@pytest.mark.parametrize("name", slow.all_but(SOME, ACROSS))
def test_what_looks_across_rows_is_found(name: str, place: str) -> None:
    assert REASONS[place](ACROSS[name]) != ""


@pytest.mark.parametrize("place", REASONS)
@pytest.mark.parametrize("name", slow.all_but(LATE, LATER))
def test_what_will_look_across_rows_is_found(name: str, place: str) -> None:
    assert "of a sum over rows" in REASONS[place](LATER[name])


def test_a_step_that_runs_eagerly_is_searched_as_well() -> None:
    def later(y: Any, p: Any) -> Any:
        return tf.reduce_mean(rowwise(y, p)) + ZERO * ACROSS["contrast"](y, p)

    def of_numbers(y: Any, p: Any) -> Any:
        return tf.reduce_mean(rowwise(y, p)) * float(COUNTER.numpy() > -1)

    assert "combines rows" in reason_in_a_fit(later, run_eagerly=True)
    assert reason_in_a_fit(BY_ROW["squares"], run_eagerly=True) == ""
    assert reason_in_a_fit(of_numbers, run_eagerly=True) == ""  # and cannot be traced


# Beside a mean over rows, with a factor of 0. No operation on rows shows what the last ones are.
BESIDE: dict[str, Loss] = {
    **ACROSS,
    "sum": lambda y, p: tf.reduce_sum(p**2),
    "mean-by-number": lambda y, p: tf.reduce_mean(p**2) * tf.cast(tf.shape(y)[0], tf.float32),
    "two-rows": lambda y, p: tf.reduce_mean(p[:2] ** 2),
    "counts-of-classes": lambda y, p: tf.reduce_mean(p[:, 0] / frequencies(y)),
}  # fmt: skip
FACTORS: dict[str, Callable[[], Any]] = {
    "a-variable": lambda: ZERO,
    "a-flag": lambda: tf.cast(FLAG, tf.float32),
    "a-counter": lambda: tf.minimum(tf.cast(COUNTER, tf.float32) / 100, 1.0),
}
OFTEN = ["contrast", "shuffled-partners", "row-numbers", "sum"]


@pytest.mark.parametrize("place", REASONS)
@pytest.mark.parametrize("name", slow.all_but(OFTEN, BESIDE))
def test_what_looks_across_rows_is_found_while_its_factor_is_zero(name: str, place: str) -> None:
    def loss(y: Any, p: Any) -> Any:
        return tf.reduce_mean(rowwise(y, p)) + ZERO * BESIDE[name](y, p)

    assert "rows" in REASONS[place](loss)
    assert ZERO.numpy() == 0


@pytest.mark.parametrize("factor", FACTORS)
def test_factors_of_all_kinds_are_set(factor: str) -> None:
    def loss(y: Any, p: Any) -> Any:
        return tf.reduce_mean(rowwise(y, p)) + FACTORS[factor]() * tf.reduce_sum(p)

    assert "variables that are 0 have other values" in reason_in_a_fit(loss)
    assert not any(variable.numpy() for variable in (ZERO, FLAG, COUNTER))


def test_updates_are_beyond_a_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    model = network()

    def loss(y: Any, p: Any) -> Any:
        updates = tf.cast(model.optimizer.iterations, tf.float32)
        return tf.reduce_mean(rowwise(y, p)) + tf.nn.relu(updates - 500) * tf.reduce_sum(p)

    model.compile(keras.optimizers.SGD(0.1), loss)
    model.optimizer.iterations.assign(7)
    keras_hooks.build(model, keras_hooks.as_data(SIGNATURE))
    assert "variables that are 0 have other values" in find_inseparable(
        Step(model, SIGNATURE), batch(), ranks=2
    )
    assert model.optimizer.iterations.numpy() == 7


@pytest.mark.parametrize("place", REASONS)
def test_rows_are_tried_with_labels_that_they_have_not(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def loss(y: Any, p: Any) -> Any:
        return tf.reduce_mean(rowwise(y, p)) + tf.reduce_sum(tf.nn.relu(y) * p[:, 0])

    x, _ = batch().rows([(0, ROWS)])
    alike = StreamBatch([x, tf.zeros(ROWS)], (0, ROWS), digest=1, last=False)
    monkeypatch.setattr(f"{__name__}.batch", lambda: alike)
    assert REASONS[place](loss).endswith("in rows that differ more")
    assert REASONS[place](BY_ROW["weights-of-rows"]) == ""


@pytest.mark.parametrize("place", REASONS)
def test_rows_are_tried_with_larger_values(place: str) -> None:
    def loss(y: Any, p: Any) -> Any:
        return tf.reduce_mean(rowwise(y, p)) + tf.reduce_sum(tf.nn.relu(tf.abs(y) - 4.0) * p[:, 0])

    assert REASONS[place](loss).endswith("in rows of larger values")


def test_numbers_among_the_arguments_are_tried_with_others() -> None:
    """They are one for all rows, and stay so."""
    inner, optimizer = network(), keras.optimizers.SGD(0.1)

    def reason(penalty: Callable[[Any], Any]) -> str:
        def step(x: Any, y: Any, factor: Any) -> Any:
            with tf.GradientTape() as tape:
                p = inner(x, training=True)
                value = tf.reduce_mean(rowwise(y, p)) + factor * penalty(p)
            weights = inner.trainable_variables
            optimizer.apply(tape.gradient(value, weights), weights)
            return value

        given = ScriptArguments((*batch().rows([(0, ROWS)]), tf.constant(0.0)), {}, known={})
        rows = StreamBatch(given.tensors, (0, ROWS), digest=1, last=False)
        model = script_model("step", step, given.form.signature, given.form.as_data)
        form = given.form
        shared = SeveralUpdatesStep(model, form.signature, as_data=form.as_data, rows=ROWS)
        return find_inseparable_update(shared, rows, ranks=2)

    assert reason(lambda p: tf.reduce_sum(p**2)).endswith("in rows that differ more")
    assert reason(lambda p: tf.reduce_mean(p**2)) == ""


def test_a_model_certain_of_larger_rows_is_shared() -> None:
    """The gradients there are rounding, which is another one in another place of a vector."""

    class Own(keras.Model):
        def train_step(self, data: Any) -> dict[str, Any]:
            x, y = data
            with tf.GradientTape() as tape:
                value = tf.reduce_mean(keras.losses.binary_crossentropy(y, self(x)))
            weights = self.trainable_variables
            self.optimizer.apply(tape.gradient(value, weights), weights)
            return {"loss": value}

    signature = (tf.TensorSpec((None, WIDTH)), tf.TensorSpec((None, 1)))
    inputs = keras.Input((WIDTH,))
    model = Own(inputs, layers.Dense(1, "sigmoid")(inputs))
    model.compile("sgd")
    keras_hooks.build(model, keras_hooks.as_data(signature))
    x = np.random.default_rng(11).normal(size=(ROWS, WIDTH)).astype("float32")
    rows = tf.constant(x), tf.constant((x.sum(1, keepdims=True) > 0).astype("float32"))
    for size in (0.7, 0.85, 1.0):
        model.layers[1].kernel.assign(np.full((WIDTH, 1), size))
        certain = StreamBatch(rows, (0, ROWS), digest=1, last=False)
        assert find_inseparable(Step(model, signature), certain, ranks=2) == ""


def test_layers_that_begin_at_zero_are_tried_with_other_weights(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    zeros = [keras.Input((WIDTH,)), layers.Dense(SIZE, kernel_initializer="zeros")]
    monkeypatch.setattr(f"{__name__}.network", lambda: keras.Sequential(zeros))

    def loss(y: Any, p: Any) -> Any:
        return tf.reduce_mean(rowwise(y, p)) + 0.1 * tf.reduce_sum(p**2)

    assert "add up over rows" in reason_in_a_fit(loss)
    assert reason_in_a_fit(BY_ROW["squares"]) == ""


@pytest.mark.parametrize("largest", [1e-3, 1e3])
def test_gradients_that_a_loop_clips_are_exchanged_before(largest: float) -> None:
    """Also where nothing is clipped yet."""
    inner, optimizer = network(), keras.optimizers.SGD(0.1)

    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            value = BY_ROW["squares"](y, inner(x, training=True))
        weights = inner.trainable_variables
        gradients, _ = tf.clip_by_global_norm(tape.gradient(value, weights), largest)
        optimizer.apply(gradients, weights)
        return value

    def as_data(tensors: Any) -> Any:
        return tuple(tensors), {}

    model = script_model("step", step, SIGNATURE, as_data)
    shared = SeveralUpdatesStep(model, SIGNATURE, as_data=as_data, rows=ROWS)
    assert find_inseparable_update(shared, batch(), ranks=2) == ""
    assert shared.updates.at_tapes


@pytest.mark.parametrize(
    ("rate", "found"), [(lambda value: 0.01 + value, "by its rows"), (lambda value: 0.02, "")]
)
def test_a_learning_rate_that_a_step_sets_is_that_of_all_rows(
    rate: Callable[[Any], Any], found: str
) -> None:
    class Rated(keras.Model):
        def train_step(self, data: Any) -> dict[str, Any]:
            x, y = data
            with tf.GradientTape() as tape:
                value = BY_ROW["squares"](y, inner(x, training=True))
            weights = inner.trainable_variables
            self.optimizer.learning_rate.assign(rate(value))
            self.optimizer.apply(tape.gradient(value, weights), weights)
            return {"loss": value}

    inner = network()
    model = Rated(inner.inputs, inner.outputs)
    model.compile(keras.optimizers.SGD(0.1))
    keras_hooks.build(model, keras_hooks.as_data(SIGNATURE))
    with pytest.raises(SeveralUpdatesFound, match="learning_rate"):
        Step(model, SIGNATURE)
    reason = find_inseparable_update(SeveralUpdatesStep(model, SIGNATURE), batch(), ranks=2)
    assert reason.endswith(found)
    assert bool(reason) is bool(found)
    model.compile(keras.optimizers.SGD(0.1), run_eagerly=True)
    keras_hooks.build(model, keras_hooks.as_data(SIGNATURE))
    assert "learning rate" in find_inseparable(Step(model, SIGNATURE), batch(), ranks=2)
    assert float(model.optimizer.learning_rate) == pytest.approx(0.1)


@pytest.mark.parametrize("place", REASONS)
@pytest.mark.parametrize("name", slow.all_but(["squares", "by-count"], BY_ROW))
def test_what_does_not_is_shared(name: str, place: str) -> None:
    assert REASONS[place](BY_ROW[name]) == ""


@pytest.mark.parametrize("place", REASONS)
def test_statistics_of_parts_are_no_reason(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    normalised = [keras.Input((WIDTH,)), layers.BatchNormalization(), layers.Dense(SIZE)]
    monkeypatch.setattr(f"{__name__}.network", lambda: keras.Sequential(normalised))
    assert REASONS[place](BY_ROW["squares"]) == ""


def test_a_loop_over_steps_of_sequences_is_no_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    each = layers.TimeDistributed(layers.Dense(3, "relu"))
    recurrent = [keras.Input((WIDTH,)), layers.Reshape((WIDTH, 1)), each, layers.SimpleRNN(SIZE)]
    monkeypatch.setattr(f"{__name__}.network", lambda: keras.Sequential(recurrent))
    assert reason_in_a_fit(BY_ROW["squares"]) == ""


@pytest.mark.parametrize("place", REASONS)
@pytest.mark.parametrize("name", slow.all_but(["least", "last-batch"], FORGETTING))
def test_a_metric_that_forgets_is_found(name: str, place: str) -> None:
    reason = REASONS[place](BY_ROW["squares"], Counted(*FORGETTING[name]))
    assert "metric" in reason or "a variable" in reason


@pytest.mark.parametrize("place", REASONS)
def test_a_metric_that_adds_to_what_it_began_with_is_shared(place: str) -> None:
    assert REASONS[place](BY_ROW["squares"], Counted(1.0, lambda s, v: s + tf.reduce_sum(v))) == ""


def test_slots_of_optimizers_are_no_reason_to_trace_a_step_again() -> None:
    traces = []

    def counted(y: Any, p: Any) -> Any:
        traces.append(y)
        return BY_ROW["squares"](y, p)

    assert reason_in_a_loop(counted) == ""
    assert len(traces) == 2  # to see whose optimizers and weights it uses, and the shared step


CHANCE: dict[str, tuple[Callable[[Any, Any], Any], int]] = {
    "a-draw-for-each-row": (lambda p, seed: p + keras.random.normal(tf.shape(p), seed=seed), 1),
    "one-for-all-rows": (lambda p, seed: p + keras.random.normal((SIZE,), seed=seed), 2),
    "dropout": (lambda p, seed: keras.random.dropout(p, 0.5, seed=seed), 2),
}


@pytest.mark.parametrize("name", CHANCE)
@pytest.mark.parametrize("loss", [BY_ROW["squares"], ACROSS["contrast"]])
def test_noise_by_rows_is_tried_as_it_is(name: str, loss: Loss) -> None:
    noisy, times = CHANCE[name]
    traces = []

    class Noisy(keras.Model):
        def train_step(self, data: Any) -> dict[str, Any]:
            x, y = data
            traces.append(x)
            with tf.GradientTape() as tape:
                value = loss(y, noisy(inner(x), self.seed))
            weights = inner.trainable_variables
            self.optimizer.apply(tape.gradient(value, weights), weights)
            return {"loss": value}

    inner = network()
    model = Noisy(inner.inputs, inner.outputs)
    model.seed = keras.random.SeedGenerator(3)
    model.compile(keras.optimizers.SGD(0.1))
    keras_hooks.build(model, keras_hooks.as_data(SIGNATURE))
    found = find_inseparable(Step(model, SIGNATURE), batch(), ranks=2)
    assert (found == "") is (loss is BY_ROW["squares"])
    assert len(traces) == times
