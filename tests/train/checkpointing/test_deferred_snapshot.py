"""A state that is held is that of its moment, whatever training does meanwhile."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

import checkpoints
from matex.checkpointing import model_state
from matex.checkpointing.deferred_snapshot import DeferredSnapshot

LAYERS = keras.layers
OPTIMIZERS = {
    "adam": lambda: keras.optimizers.Adam(0.01),
    "momentum": lambda: keras.optimizers.SGD(0.01, momentum=0.9),
    "averaging": lambda: keras.optimizers.AdamW(0.01, use_ema=True),
}


def model(optimizer: str, **options: Any) -> Any:
    built = keras.Sequential(
        [
            keras.Input((4,), dtype="int32"),
            LAYERS.Embedding(9, 6),
            LAYERS.Flatten(),
            LAYERS.Dense(8),
            LAYERS.BatchNormalization(),
            LAYERS.Dropout(0.3),
            LAYERS.Dense(1),
        ]
    )
    built.compile(OPTIMIZERS[optimizer](), "mse", **options)
    return built


def train(model: Any, steps: int = 3) -> None:
    generator = np.random.default_rng(0)
    for _ in range(steps):
        model.train_on_batch(generator.integers(0, 9, (16, 4)), generator.normal(size=(16, 1)))


def values(model: Any) -> list[np.ndarray]:
    variables = [
        *model_state.weights_of(model),
        *model.optimizer.variables,
        *model.metrics_variables,
    ]
    return [variable.numpy() for variable in variables]


def arrays(snapshot: checkpoints.Snapshot) -> list[np.ndarray]:
    return [*snapshot.weights.values(), *snapshot.optimizer.values(), *snapshot.extra.values()]


def held(model: Any) -> DeferredSnapshot:
    return model_state.hold(model, {"step": 3}, architecture="", extra={})


def assert_equal(snapshot: checkpoints.Snapshot, wanted: list[np.ndarray]) -> None:
    for array, value in zip(arrays(snapshot), wanted, strict=True):
        np.testing.assert_array_equal(array, value)


@pytest.mark.parametrize(
    ("optimizer", "jit_compile"),
    [*((optimizer, False) for optimizer in OPTIMIZERS), ("adam", True)],
)
def test_steps_change_nothing_of_it(optimizer: str, jit_compile: bool) -> None:
    trained = model(optimizer, jit_compile=jit_compile)
    train(trained)
    then, taken = values(trained), held(trained)
    views = taken.snapshot()
    train(trained)
    for variable in trained.weights:
        variable.assign(variable + 1)
    assert_equal(views, then)
    assert_equal(taken.copied(), then)
    assert any(not np.array_equal(a, b) for a, b in zip(values(trained), then, strict=True))


def test_copies_are_made_once_and_share_nothing_with_the_model() -> None:
    trained = model("adam")
    train(trained)
    taken = held(trained)
    views, copies = taken.snapshot(), taken.copied()
    assert taken.copied() is copies
    for view, copy in zip(arrays(views), arrays(copies), strict=True):
        np.testing.assert_array_equal(view, copy)
        assert not np.shares_memory(view, copy) or view.size == 0


def test_a_snapshot_is_whole_after_the_copies_too() -> None:
    trained = model("adam")
    train(trained)
    taken = held(trained)
    assert_equal(taken.copied(), values(trained))
    assert_equal(taken.snapshot(), values(trained))


def test_equal_names_are_told_apart() -> None:
    layer = [LAYERS.Dense(2, name="same") for _ in range(2)]
    for each in layer:
        each.build((None, 3))
    weights = [weight for each in layer for weight in each.weights]
    taken = DeferredSnapshot({"weights": weights}, {"step": 0}, architecture="", extra={})
    assert list(taken.snapshot().weights) == [
        "same/kernel",
        "same/bias",
        "same/kernel~2",
        "same/bias~2",
    ]
