"""Steps whose gradients stay with their rank, and updates at a multiple of the rate; no MPI."""

from __future__ import annotations

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
from tests.train.test_step import contribution, control

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


@pytest.mark.parametrize(
    "optimizer",
    [
        lambda: keras.optimizers.SGD(0.02, momentum=0.9),
        lambda: keras.optimizers.SGD(0.02, momentum=0.9, nesterov=True),
        lambda: keras.optimizers.SGD(0.02),
        lambda: keras.optimizers.RMSprop(0.002, momentum=0.9),
        lambda: keras.optimizers.Adam(0.002),
        lambda: LARS(0.02, trust=0.1),
    ],
    ids=["sgd-momentum", "nesterov", "sgd", "rmsprop-momentum", "adam", "lars"],
)
def test_a_factor_is_a_rate_with_its_velocity_corrected(optimizer: Any, batches: Batches) -> None:
    """Beside the same optimizer with rate and velocity set by hand before each step."""
    ours, theirs = made(optimizer(), batches), made(optimizer(), batches)
    base = float(theirs.optimizer.learning_rate.numpy())
    step = Step(ours, batches.signature, scales_rate=True)
    before = 1.0
    for factor in (1.0, 2.5, 4.0, 3.0, 3.0):
        header = Header(samples=96, learning_rate=1, rate_factor=factor)
        told = Control(1.0, 0.0, 96.0, header, [(0, 96)]).array()
        step.commit(step.contribution(batches.rows(np.arange(96)), told))
        theirs.optimizer.learning_rate = base * factor
        if not isinstance(theirs.optimizer, keras.optimizers.Adam):
            for variable in theirs.optimizer.variables:
                if variable.path.endswith("_momentum"):
                    variable.assign(variable * (factor / before))
        theirs.train_on_batch(*batches.rows(np.arange(96)))
        before = factor
    assert_equal_weights(ours, theirs)
    assert float(ours.optimizer.learning_rate.numpy()) == pytest.approx(base)
