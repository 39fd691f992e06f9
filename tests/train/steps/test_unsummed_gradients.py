"""Steps whose gradients stay with their rank, and updates at a multiple of the rate; no MPI."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest

from matex import keras_hooks
from matex.data import Batches
from matex.exchange import Header, header_of
from matex.optimizers import LARS
from matex.steps.control import Control
from matex.steps.step import Step
from tests.train.steps.test_step import contribution, control

CUTS = [(0, 30), (30, 61), (61, 96)]


@pytest.fixture
def batches() -> Batches:
    generator = np.random.default_rng(0)
    x = generator.normal(size=(96, 6)).astype(np.float32)
    return Batches(x, (x[:, 0] > 0).astype(np.float32))


def made(optimizer: Any, batches: Batches) -> Any:
    keras.utils.set_random_seed(4)
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(9), keras.layers.Dense(1)])
    model.compile(optimizer, "mse", metrics=["mae"])
    keras_hooks.build(model, keras_hooks.as_data(batches.signature))
    return model


def assert_equal_weights(ours: Any, theirs: Any) -> None:
    for mine, wanted in zip(ours.weights, theirs.weights, strict=True):
        np.testing.assert_allclose(mine.numpy(), wanted.numpy(), rtol=2e-5, atol=1e-6)


def test_each_updates_by_the_mean_over_its_own_rows(batches: Batches) -> None:
    ours, theirs = made("adam", batches), made("adam", batches)
    step = Step(ours, batches.signature, sums_gradients=False)
    assert step.exchanged is not None
    assert step.exchanged.gradients == ()
    for _ in range(3):
        parts = [contribution(step, batches, lo, hi) for lo, hi in CUTS]
        step.commit([*parts[1], sum(part[-1] for part in parts)])
        theirs.train_on_batch(*batches.rows(np.arange(*CUTS[1])))
    assert_equal_weights(ours, theirs)
    total = header_of(sum(part[-1] for part in parts))
    assert (total.samples, total.ranks, total.nonfinite) == (96, 3, 0)


def test_gradients_that_are_not_finite_are_told_in_the_header(batches: Batches) -> None:
    step = Step(made("sgd", batches), batches.signature, sums_gradients=False)
    rows = batches.rows(np.arange(8))
    x = np.array(rows[0])
    x[3, 2] = np.nan
    parts = step.contribution((x, *rows[1:]), control(0, 8, 96))
    assert header_of(np.asarray(parts[-1])).nonfinite == 1


def decaying(rate: float) -> Any:
    return keras.optimizers.schedules.ExponentialDecay(rate, 2, 0.5)


def called(rate: float) -> Any:
    """A function without arguments, which Keras asks for the rate of each update."""
    return lambda: rate


def divided(rate: Any) -> Any:
    """One optimizer for kernels, and one for biases, which is slower."""
    kernels, biases = keras.optimizers.SGD(rate, momentum=0.9), keras.optimizers.Adam(rate)
    return keras.optimizers.MultiOptimizer(
        lambda variable: kernels if len(variable.shape) > 1 else biases
    )


OPTIMIZERS: dict[str, tuple[Callable[[Any], Any], float]] = {
    "sgd-momentum": (lambda rate: keras.optimizers.SGD(rate, momentum=0.9), 0.02),
    "nesterov": (lambda rate: keras.optimizers.SGD(rate, momentum=0.9, nesterov=True), 0.02),
    "sgd": (keras.optimizers.SGD, 0.02),
    "rmsprop-momentum": (lambda rate: keras.optimizers.RMSprop(rate, momentum=0.9), 0.002),
    "adam": (keras.optimizers.Adam, 0.002),
    "lars": (lambda rate: LARS(rate, trust=0.1), 0.02),
    "several": (divided, 0.002),
}


@pytest.mark.parametrize(
    ("name", "made_rate"),
    [
        *((name, float) for name in OPTIMIZERS),
        ("nesterov", decaying),
        ("rmsprop-momentum", decaying),
        ("several", decaying),
        ("sgd-momentum", called),
    ],
)
def test_a_factor_is_a_rate_with_its_velocity_corrected(
    name: str, made_rate: Callable[[float], Any], batches: Batches
) -> None:
    """Beside the same optimizer with rate and velocity set by hand before each step."""
    optimizer, base = OPTIMIZERS[name]
    rate = made_rate(base)
    ours, theirs = made(optimizer(rate), batches), made(optimizer(base), batches)
    own = [each._learning_rate for each in inner_optimizers(ours.optimizer)]
    step = Step(ours, batches.signature, scales_rate=True)
    before = 1.0
    for made_steps, factor in enumerate((1.0, 2.5, 4.0, 3.0, 3.0)):
        header = Header(samples=96, learning_rate=1, rate_factor=factor)
        told = Control(1.0, 0.0, 96.0, header, [(0, 96)]).array()
        step.commit(step.contribution(batches.rows(np.arange(96)), told))
        for each in inner_optimizers(theirs.optimizer):
            each.learning_rate = value_of(rate, made_steps) * factor
            if not isinstance(each, keras.optimizers.Adam):
                for variable in each.variables:
                    if variable.path.endswith("_momentum"):
                        variable.assign(variable * (factor / before))
        theirs.train_on_batch(*batches.rows(np.arange(96)))
        before = factor
    assert_equal_weights(ours, theirs)
    for each, before_all in zip(inner_optimizers(ours.optimizer), own, strict=True):
        assert each._learning_rate is before_all
        assert float(each.learning_rate) == pytest.approx(value_of(rate, 5))


def inner_optimizers(optimizer: Any) -> list[Any]:
    return getattr(optimizer, "optimizers", [optimizer])


def value_of(rate: Any, step: int) -> float:
    if isinstance(rate, keras.optimizers.schedules.LearningRateSchedule):
        return float(rate(step))
    return float(rate() if callable(rate) else rate)


def test_a_schedule_is_the_scripts_own_again_after_an_update_that_fails() -> None:
    rate = decaying(0.1)
    optimizer = keras.optimizers.SGD(rate)
    with pytest.raises(ZeroDivisionError), keras_hooks.scaled_learning_rate(optimizer, 3.0):
        assert float(optimizer.learning_rate) == pytest.approx(0.3)
        raise ZeroDivisionError
    assert optimizer._learning_rate is rate
