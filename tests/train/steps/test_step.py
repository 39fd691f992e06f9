"""The three functions of a step, in this process and without MPI."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from matex import keras_hooks
from matex.data import Batches
from matex.exchange import Header, Mpi4pyExchange
from matex.partition.spans import parts_of
from matex.steps.control import Control
from matex.steps.graphs import specialization
from matex.steps.graphs.hot_shape import HotShape
from matex.steps.step import Step


def make_model(*, dropout: float = 0.0) -> Any:
    keras.utils.set_random_seed(4)
    model = keras.Sequential(
        [
            keras.Input((6,)),
            keras.layers.Dense(10, "relu"),
            keras.layers.BatchNormalization(),
            keras.layers.Dropout(dropout),
            keras.layers.Dense(1, "sigmoid"),
        ]
    )
    model.compile(
        keras.optimizers.Adam(3e-4), "binary_crossentropy", metrics=[keras.metrics.AUC(name="auc")]
    )
    return model


@pytest.fixture
def batches() -> Batches:
    generator = np.random.default_rng(0)
    x = generator.normal(size=(96, 6)).astype(np.float32)
    return Batches(x, (x[:, 0] > 0).astype(np.float32))


def make_step(model: Any, batches: Batches) -> Step:
    keras_hooks.build(model, keras_hooks.as_data(batches.signature))
    return Step(model, batches.signature)


class InGraph(Mpi4pyExchange):
    """An exchange of one rank, which is what *call* makes of its parts; no MPI."""

    def __init__(self, step: Step, call: Callable[..., list[np.ndarray]]) -> None:
        assert step.layout is not None
        self.layout = step.layout
        self._call = call
        self.traced = 0

    def in_graph(self, parts: Sequence[Any]) -> list[Any]:
        self.traced += 1
        return super().in_graph(parts)

    def __call__(self, *parts: np.ndarray) -> list[np.ndarray]:
        return self._call(*parts)


def control(lo: int, hi: int, samples: int) -> np.ndarray:
    header = Header(samples=hi - lo, learning_rate=float(lo == 0))
    return Control((hi - lo) / samples, lo, samples, header, [(lo, hi)]).array()


def contribution(step: Step, batches: Batches, lo: int, hi: int) -> list[np.ndarray]:
    rows = batches.rows(np.arange(lo, hi))
    return [part.numpy() for part in step.contribution(rows, control(lo, hi, 96))]


def values(model: Any) -> list[np.ndarray]:
    return [v.numpy() for v in (*model.variables, *model.optimizer.variables)]


def test_a_contribution_changes_nothing(batches: Batches) -> None:
    model = make_model(dropout=0.4)
    step = make_step(model, batches)
    step.commit(step.contribution(batches.rows(np.arange(96)), control(0, 96, 96)))
    before = values(model)
    step.contribution(batches.rows(np.arange(50)), control(0, 50, 96))
    for old, new in zip(before, values(model), strict=True):
        np.testing.assert_array_equal(new, old)


def test_contributions_of_parts_add_up_to_that_of_the_whole(batches: Batches) -> None:
    model = keras.Sequential(
        [keras.Input((6,)), keras.layers.Dense(10, "relu"), keras.layers.Dense(1, "sigmoid")]
    )
    model.compile("adam", "binary_crossentropy", metrics=[keras.metrics.AUC()])
    step = make_step(model, batches)
    whole = contribution(step, batches, 0, 96)
    cuts = [(0, 17), (17, 60), (60, 96)]
    parts = [contribution(step, batches, lo, hi) for lo, hi in cuts]
    for wanted, *given in zip(whole, *parts, strict=True):
        total = np.sum(given, axis=0)
        total[-1:] -= 2 if wanted is whole[-1] else 0  # a one from each contribution
        np.testing.assert_allclose(total, wanted, rtol=2e-5, atol=2e-7)


def test_functions_of_a_batch_count_a_part_of_it(batches: Batches) -> None:
    """Metrics of the script's own often return one number, and means over rows add up."""

    def error(labels: Any, outputs: Any) -> Any:
        return keras.ops.mean(keras.ops.abs(labels - outputs))

    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(1)])
    model.compile("adam", "mse", metrics=[error, "mae"], weighted_metrics=[error])
    x, labels = batches.rows(np.arange(96))
    columns = Batches(x, labels[:, None])
    step = make_step(model, columns)
    assert step.layout is not None
    names = [segment.name for segment in step.layout.sums]
    sums = slice(-len(Header._fields) - len(names), -len(Header._fields))
    whole = contribution(step, columns, 0, 96)[-1][sums]
    parts = [contribution(step, columns, lo, hi)[-1][sums] for lo, hi in ((0, 31), (31, 96))]
    np.testing.assert_allclose(np.sum(parts, 0), whole, rtol=1e-5)
    assert whole[names.index("increment of error/count")] == 1


def test_shares_by_speed_give_the_gradients_of_equal_shares(batches: Batches) -> None:
    """One of three ranks is three times as slow."""
    model = keras.Sequential(
        [keras.Input((6,)), keras.layers.Dense(10, "relu"), keras.layers.Dense(1, "sigmoid")]
    )
    model.compile("adam", "binary_crossentropy")
    step = make_step(model, batches)

    def gradients(spans: dict[int, tuple[int, int]]) -> list[np.ndarray]:
        parts = [contribution(step, batches, lo, hi)[:-1] for lo, hi in spans.values()]
        return [np.sum(given, axis=0) for given in zip(*parts, strict=True)]

    equal = parts_of((0, 96), [0, 1, 2])
    unequal = parts_of((0, 96), [0, 1, 2], {0: 3.0, 1: 3.0, 2: 1.0})
    assert [hi - lo for lo, hi in unequal.values()] == [40, 40, 16]
    for wanted, given in zip(gradients(equal), gradients(unequal), strict=True):
        assert np.abs(wanted).max() > 1e-3
        np.testing.assert_allclose(given, wanted, atol=1e-6, rtol=0)


def test_one_step_equals_keras_own(batches: Batches) -> None:
    """Contribution and commit of the whole batch are what train_step does, to rounding."""
    ours, theirs = make_model(), make_model()
    step = make_step(ours, batches)
    for _ in range(3):
        step.commit(step.contribution(batches.rows(np.arange(96)), control(0, 96, 96)))
        theirs.train_on_batch(*batches.rows(np.arange(96)))
    for a, b in zip(ours.weights, theirs.weights, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("after", [1, 1000], ids=["graph-of-its-size", "graph-of-any-size"])
def test_a_failed_exchange_leaves_everything_as_it_was(
    batches: Batches, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights, slots, the update counter, statistics, seeds and metrics, in many failed steps."""
    monkeypatch.setattr(specialization, "HotShape", lambda: HotShape(after=after, short_s=60.0))
    model = make_model(dropout=0.4)
    step = make_step(model, batches)
    failing = True

    def exchange(*parts: np.ndarray) -> list[np.ndarray]:
        if failing:
            raise RuntimeError("a peer died")
        return list(parts)

    step.connect(InGraph(step, exchange))
    rows, told = batches.rows(np.arange(96)), control(0, 96, 96)
    failing = False
    step.fused(rows, told)
    failing = True
    before = values(model)
    for _ in range(20):
        with pytest.raises(tf.errors.OpError):
            step.fused(rows, told)
    for old, new in zip(before, values(model), strict=True):
        np.testing.assert_array_equal(new, old)
    failing = False
    step.fused(rows, told)
    assert int(model.optimizer.iterations.numpy()) == 2


def test_the_learning_rate_goes_round_exactly(batches: Batches) -> None:
    model = make_model()
    step = make_step(model, batches)
    step.connect(InGraph(step, lambda *parts: list(parts)))
    for _ in range(3):
        step.fused(batches.rows(np.arange(96)), control(0, 96, 96))
    assert model.optimizer.learning_rate.numpy() == np.float32(3e-4)


def test_other_batch_sizes_trace_nothing_new(batches: Batches) -> None:
    calls: list[int] = []

    def loss(y: Any, predicted: Any) -> Any:
        calls.append(len(calls))
        return keras.losses.binary_crossentropy(y, predicted)

    model = make_model()
    model.compile("adam", loss)
    step = make_step(model, batches)
    exchange = InGraph(step, lambda *parts: list(parts))
    step.connect(exchange)
    for size in (96, 31, 1, 64):
        rows, told = batches.rows(np.arange(size)), control(0, size, 96)
        step.commit(step.contribution(rows, told))
        step.fused(rows, told)
        assert len(calls) == 2, "one trace of each: the contribution, and the whole step"
    assert exchange.traced == 1


def test_the_usual_size_gets_a_graph_and_equal_results(
    batches: Batches, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(specialization, "HotShape", lambda: HotShape(after=3, short_s=60.0))
    ours, theirs = make_model(), make_model()
    step = make_step(ours, batches)
    exchange = InGraph(step, lambda *parts: list(parts))
    step.connect(exchange)
    for size in (96, 96, 31, 96, 96, 96):
        step.fused(batches.rows(np.arange(size)), control(0, size, size))
        theirs.train_on_batch(*batches.rows(np.arange(size)))
    assert exchange.traced == 2  # for any size, and for 96
    for a, b in zip(ours.weights, theirs.weights, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-6)


def test_random_masks_depend_on_the_place_in_the_step(batches: Batches) -> None:
    step = make_step(make_model(dropout=0.5), batches)
    rows = batches.rows(np.arange(48))
    here, there, again = (
        step.contribution(
            rows, Control(1.0, offset, 96.0, Header(), [(offset, offset + 48)]).array()
        )[0].numpy()
        for offset in (0.0, 48.0, 0.0)
    )
    assert not np.allclose(here, there)
    np.testing.assert_array_equal(here, again)
