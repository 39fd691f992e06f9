"""One contract for both exchanges: what goes into a step's graph comes out summed, once, whole."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import ft
from matex.config import Config
from matex.config.compressions import COMPRESSIONS, compression_of
from matex.errors import TrainingError
from matex.exchange import GraphExchange, Header, Layout, Mpi4pyExchange, NativeExchange
from matex.exchange.codecs import CODECS
from matex.exchange.factory import library
from matex.exchange.layout import Segment
from tests.mpi.routes import in_pairs

Make = Callable[..., GraphExchange]

DTYPES = ("float32", "float64", "float16", "bfloat16")
FINGERPRINT = 41


@pytest.fixture(scope="session")
def native() -> Any:
    # Another place is for a library that was built otherwise, to look into it.
    other = os.environ.get("EXCHANGE_TEST_CACHE")
    return library(Path(other) if other else Config.from_environment().cache_directory)


WAYS = {
    "flat": {},
    "slices": {"plan": "slices"},
    "pairs": {"plan": "slices", "route_of": in_pairs},
    **{name: {"compression": name} for name in CODECS},
    "int8-in-pairs": {"compression": "int8", "route_of": in_pairs},
}
# Computed by NumPy alone; test_powersgd.py has what comes out of it.
BY_NUMPY = {n: {"compression": row.example} for n, row in COMPRESSIONS.items() if row.by_numpy}


# One of each implementation, plan and number of roundings.
KINDS = (
    "host flat",
    "native flat",
    "host int8",
    *(f"host {name}" for name in BY_NUMPY),
    "native slices",
    "native bf16",
    "native pairs",
)


@pytest.fixture(params=KINDS)
def make(request: pytest.FixtureRequest, comm: ft.Communicator) -> Make:
    return maker(request, comm, *request.param.split())


def maker(request: pytest.FixtureRequest, comm: ft.Communicator, kind: str, way: str) -> Make:
    def exchange(layout: Layout, *faults: str, **options: Any) -> GraphExchange:
        injector = ft.Injector(map(ft.parse_fault, faults), rank=comm.world.rank)
        options |= (WAYS | BY_NUMPY)[way]
        if kind == "host" or (kind == "mixed" and comm.world.place % 2):
            return Mpi4pyExchange(comm, layout, faults=injector, **options)
        built = request.getfixturevalue("native")
        return NativeExchange(comm, layout, faults=injector, library=built, **options)

    return exchange


def layout_of(dtype: str, *shapes: tuple[int, ...]) -> Layout:
    return Layout(
        gradients=tuple(Segment(f"gradient {i}", shape, dtype) for i, shape in enumerate(shapes)),
        means=(),
        sums=(Segment("count", (3,), "float32"),),
    )


def auxiliary_of(layout: Layout, comm: ft.Communicator, **fields: float) -> np.ndarray:
    header = Header(samples=2.0, fingerprint=FINGERPRINT / comm.world.size)._replace(**fields)
    return np.array([1.0, 2.0, 3.0, *header], layout.dtype)


def step_of(exchange: GraphExchange, signature: list[Any]) -> Callable[..., list[np.ndarray]]:
    """A graph around the exchange; its call, begun for two samples a rank."""

    @tf.function(input_signature=signature, autograph=False)
    def fused(*parts: Any) -> Any:
        return [tf.identity(part) for part in exchange.in_graph(parts)]

    def call(*parts: Any) -> list[np.ndarray]:
        size = exchange._communicator.world.size
        exchange.begin(samples=2 * size, fingerprint=FINGERPRINT)
        return [part.numpy() for part in exchange.run(lambda: fused(*parts))]

    return call


def spec(layout: Layout, dtype: str) -> list[Any]:
    *gradients, auxiliary = layout.shapes
    return [*(tf.TensorSpec(s, dtype) for s in gradients), tf.TensorSpec(auxiliary, layout.dtype)]


def values(shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Small whole numbers: their sums are exact in every dtype."""
    return np.random.default_rng(seed).integers(-8, 9, shape).astype(np.float32)


def assert_sum(exchange: GraphExchange, total: Any, wanted: np.ndarray) -> None:
    """Exact, but for what does not fit fewer bits: rounded twice, and once in the step before."""
    row, largest = compression_of(exchange._terms.compression), exchange.result()[0].max(initial=64)
    np.testing.assert_allclose(
        total, wanted, rtol=3 * row.relative_error, atol=3 * row.block_error * largest
    )


SUMS = [
    *((kind, way, "float32", {}) for kind in ("host", "native") for way in WAYS),
    *(("mixed", way, "float32", {}) for way in ("pairs", "int8-in-pairs")),
    *(("native", way, dtype, {}) for way in ("flat", "pairs", "fp16") for dtype in DTYPES[1:]),
    *((kind, "flat", "float32", {"chunk": 70_007}) for kind in ("host", "native")),
    *((kind, "flat", "float32", {"large_bytes": 0}) for kind in ("host", "native")),
]


@pytest.mark.parametrize(("kind", "way", "dtype", "options"), SUMS)
def test_sums_of_every_dtype(
    request: pytest.FixtureRequest,
    comm: ft.Communicator,
    kind: str,
    way: str,
    dtype: str,
    options: dict[str, Any],
) -> None:
    if "pairs" in way and comm.world.size == 2:
        pytest.skip("both are one pair")
    shapes = ((3, 5), (), (0, 4), (70,), (2, 1, 2, 3), (700, 500))
    layout = layout_of(dtype, *shapes)
    exchange = maker(request, comm, kind, way)(layout, **options)
    step = step_of(exchange, spec(layout, dtype))
    for number in range(3):
        mine = {
            rank: [values(shape, 1000 * number + 10 * rank + i) for i, shape in enumerate(shapes)]
            for rank in comm.world.ranks
        }
        local = [tf.cast(part, dtype) for part in mine[comm.world.rank]]
        *sums, auxiliary = step(*local, tf.constant(auxiliary_of(layout, comm)))
        for i, total in enumerate(sums):
            expected = np.sum([parts[i] for parts in mine.values()], axis=0)
            assert total.dtype == layout.dtype
            assert total.shape == shapes[i]
            assert_sum(exchange, total, expected)
        assert Header(*auxiliary[3:].tolist()).ranks == comm.world.size
        np.testing.assert_array_equal(auxiliary[:3], np.array([1, 2, 3]) * comm.world.size)
        # Both ends survive the step, as recovery needs them.
        np.testing.assert_array_equal(
            exchange.layout.views(exchange.local)[3], mine[comm.world.rank][3]
        )
        np.testing.assert_array_equal(exchange.result()[3], sums[3])
        assert comm.done == number + 1


@pytest.mark.parametrize(
    ("kind", "way"),
    [
        *((kind, way) for kind in ("host", "native") for way in CODECS),
        ("host", "powersgd"),
        ("mixed", "int8-in-pairs"),
    ],
)
def test_slots_get_no_error_feedback(
    request: pytest.FixtureRequest, comm: ft.Communicator, kind: str, way: str
) -> None:
    """A slot belongs to another index in the next step, which has nothing to do with its error."""
    if "pairs" in way and comm.world.size == 2:
        pytest.skip("both are one pair")
    shapes = ((400, 300), (70,), (640, 256), (9, 4))
    layout = replace(layout_of("float32", *shapes), slots=2)
    exchange = maker(request, comm, kind, way)(layout)
    step = step_of(exchange, spec(layout, "float32"))
    auxiliary = tf.constant(auxiliary_of(layout, comm))
    generator = np.random.default_rng(5)
    all_ranks = [
        [generator.normal(size=shape).astype(np.float32) for shape in shapes]
        for _ in range(comm.world.size)
    ]
    *sums, _ = step(*map(tf.constant, all_ranks[comm.world.place]), auxiliary)
    for number, total in enumerate(sums[2:], 2):
        wanted = np.sum([parts[number] for parts in all_ranks], axis=0)
        np.testing.assert_allclose(total, wanted, atol=3 * 2.0**-8 * np.abs(wanted).max())
    *sums, _ = step(*(tf.zeros(shape) for shape in shapes), auxiliary)
    assert comm.world.size == 1 or np.any(sums[0])
    assert not any(np.any(total) for total in sums[2:])


def test_error_feedback_outlives_a_step_that_is_given_up(make: Make, comm: ft.Communicator) -> None:
    """A step may fail before its exchange, or be made again: what is left over is added once."""
    layout = layout_of("float32", (40, 60))
    auxiliary = tf.constant(auxiliary_of(layout, comm))
    sums: list[list[np.ndarray]] = []
    for given_up, again in ((0, 0), (1, 0), (0, 1)):
        exchange, generator = make(layout), np.random.default_rng(comm.world.rank)
        step = step_of(exchange, spec(layout, "float32"))
        for _ in range(3):
            mine = generator.normal(size=(40, 60)).astype(np.float32)
            sums.append(step(tf.constant(mine), auxiliary))
            for _ in range(again):
                expected = {"samples": 2 * comm.world.size, "fingerprint": FINGERPRINT}
                exchange.begin(**expected, again=True)
                exchange(mine, auxiliary.numpy())
                np.testing.assert_array_equal(exchange.result()[0], sums[-1][0])
            for _ in range(given_up):
                exchange.begin(samples=0, fingerprint=0)
    for kept, wanted in zip(sums[3:], 2 * sums[:3], strict=True):
        np.testing.assert_array_equal(kept[0], wanted[0])


@pytest.mark.parametrize(("kind", "way"), [("host", "int8"), ("native", "bf16")])
def test_a_sum_without_rounding_leaves_nothing_over(
    request: pytest.FixtureRequest, comm: ft.Communicator, monkeypatch: pytest.MonkeyPatch,
    kind: str, way: str,
) -> None:  # fmt: skip
    """A rank that is the last, and then is not: what the sums before left over is long added."""
    layout = layout_of("float32", (40, 60))
    exchange = maker(request, comm, kind, way)(layout)
    step, auxiliary = step_of(exchange, spec(layout, "float32")), auxiliary_of(layout, comm)
    mine = np.random.default_rng(0).normal(size=(40, 60)).astype(np.float32)
    for _ in range(2):
        step(tf.constant(mine), tf.constant(auxiliary))
    with monkeypatch.context() as patched:
        patched.setattr("matex.exchange.reduction.is_sliced", lambda *_, **__: False)
        for _ in range(2):
            step(tf.constant(mine), tf.constant(auxiliary))
    total, _ = step(tf.zeros((40, 60)), tf.constant(auxiliary))
    assert not total.any()


def test_the_result_is_not_written_by_what_uses_it(make: Make, comm: ft.Communicator) -> None:
    """TensorFlow may reuse the buffer of a tensor that nobody else holds: not this one."""
    layout = layout_of("float32", (64,))
    exchange = make(layout)
    variable = tf.Variable(tf.zeros(64))

    @tf.function(input_signature=spec(layout, "float32"), autograph=False)
    def fused(*parts: Any) -> Any:
        gradient, _ = exchange.in_graph(parts)
        variable.assign_sub(tf.exp(gradient * 0.5) * 3.0)
        return tf.constant(0)

    exchange.begin(samples=2 * comm.world.size, fingerprint=FINGERPRINT)
    exchange.run(lambda: fused(tf.ones(64), tf.constant(auxiliary_of(layout, comm))))
    np.testing.assert_array_equal(exchange.result()[0], np.full(64, comm.world.size))
    before = variable.numpy()
    exchange.begin(samples=2 * comm.world.size, fingerprint=FINGERPRINT)
    exchange.replay(exchange.local.copy())
    np.testing.assert_array_equal(variable.numpy(), before)


def test_a_variable_keeps_the_sum_that_was_assigned_to_it(
    make: Make, comm: ft.Communicator
) -> None:
    """TensorFlow lets a variable adopt the memory of a tensor that is assigned to it."""
    layout = layout_of("float32", (64,))
    exchange = make(layout, large_bytes=0)
    variable, noted = tf.Variable(tf.zeros(64)), tf.Variable(tf.zeros(3))

    @tf.function(input_signature=spec(layout, "float32"), autograph=False)
    def fused(*parts: Any) -> Any:
        gradient, auxiliary = exchange.in_graph(parts)
        if_first = tf.reduce_all(variable == 0.0)
        tf.cond(if_first, lambda: variable.assign(gradient), variable.read_value)
        tf.cond(if_first, lambda: noted.assign(auxiliary[:3]), noted.read_value)
        return tf.constant(0)

    for value in (1.0, 5.0):
        exchange.begin(samples=2 * comm.world.size, fingerprint=FINGERPRINT)
        auxiliary = tf.constant(auxiliary_of(layout, comm)) * tf.constant([value] * 3 + [1.0] * 10)
        exchange.run(lambda: fused(tf.fill(64, value), auxiliary))  # noqa: B023
    np.testing.assert_array_equal(variable, np.full(64, comm.world.size))
    np.testing.assert_array_equal(noted, comm.world.size * np.array([1, 2, 3]))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_fails_on_every_rank_and_is_found_on_one(
    make: Make, comm: ft.Communicator, bad: float
) -> None:
    layout = layout_of("float32", (4,), (100,))
    exchange = make(layout, chunk=16)
    step = step_of(exchange, spec(layout, "float32"))
    guilty = comm.world.size - 1
    second = np.ones(100, np.float32)
    if comm.world.rank == guilty:
        second[[3, 99]] = bad
    failures = (TrainingError, tf.errors.OpError)
    with pytest.raises(failures):
        step(tf.ones(4), tf.constant(second), tf.constant(auxiliary_of(layout, comm)))
    assert isinstance(exchange.error, TrainingError)
    assert "not finite" in str(exchange.error)
    assert exchange.header.nonfinite == 1
    assert exchange.spoiled == (comm.world.rank == guilty)
    found = layout.nonfinite_names(exchange.local) if exchange.spoiled else []
    assert found == (["gradient 1 (2 of 100 values)"] if comm.world.rank == guilty else [])
    assert comm.failure is None


def test_metrics_that_are_no_numbers_pass(make: Make, comm: ft.Communicator) -> None:
    layout = layout_of("float32", (4,))
    exchange = make(layout)
    step = step_of(exchange, spec(layout, "float32"))
    auxiliary = auxiliary_of(layout, comm)
    auxiliary[1] = np.nan
    gradient, sums = step(tf.ones(4), tf.constant(auxiliary))
    assert gradient.tolist() == [comm.world.size] * 4
    assert np.isnan(sums[:3]).tolist() == [False, True, False]
    assert not exchange.spoiled


def test_not_looking_lets_it_through(make: Make, comm: ft.Communicator) -> None:
    layout = layout_of("float32", (4,))
    exchange = make(layout, check_finite=False)
    step = step_of(exchange, spec(layout, "float32"))
    gradient, _ = step(
        tf.constant([np.inf, 1, 1, 1], tf.float32), tf.constant(auxiliary_of(layout, comm))
    )
    assert not np.isfinite(gradient[0])
    if exchange._terms.compression != "int8":  # there what is beside it has its scale
        assert gradient[1] == comm.world.size


def test_a_sum_of_other_samples_is_refused(make: Make, comm: ft.Communicator) -> None:
    layout = layout_of("float32", (4,))
    exchange = make(layout)
    step = step_of(exchange, spec(layout, "float32"))
    with pytest.raises((TrainingError, tf.errors.OpError)):
        step(tf.ones(4), tf.constant(auxiliary_of(layout, comm, fingerprint=5.0)))
    assert "each of its" in str(exchange.error)
    assert comm.failure is None


def test_a_wrong_constant_is_a_failed_operation(make: Make, comm: ft.Communicator) -> None:
    """The caller adds it anew, as after a death."""
    layout = layout_of("float32", (4,))
    exchange = make(layout)
    step = step_of(exchange, spec(layout, "float32"))
    if not comm.ulfm:
        pytest.skip("repair wants ULFM")
    with pytest.raises((ft.PeerFailure, tf.errors.OpError)):
        step(tf.ones(4), tf.constant(auxiliary_of(layout, comm, ranks=2.0)))
    assert isinstance(exchange.error, ft.PeerFailure)
    assert not comm.recover().finished
    auxiliary = auxiliary_of(layout, comm)
    exchange.replay(exchange.packed([np.ones(4, np.float32), auxiliary]))
    np.testing.assert_array_equal(exchange.result()[0], np.full(4, comm.world.size))


def test_a_failed_exchange_keeps_the_whole_contribution(make: Make, comm: ft.Communicator) -> None:
    """Also what it had not come to: recovery makes the same sum from it."""
    if not comm.ulfm:
        pytest.skip("repair wants ULFM")
    layout = layout_of("float32", (300_000,), (50,))
    exchange = make(layout, chunk=1000)
    step = step_of(exchange, spec(layout, "float32"))
    mine = np.arange(300_000, dtype=np.float32) % 1000
    parts = [mine, np.full(50, 7, np.float32), auxiliary_of(layout, comm)]
    comm.handle.Revoke()
    with pytest.raises((ft.PeerFailure, tf.errors.OpError)):
        step(*map(tf.constant, parts))
    for kept, given in zip(layout.views(exchange.local), parts, strict=True):
        np.testing.assert_array_equal(kept, given)
    assert not comm.recover().finished
    exchange.replay(exchange.local.copy())
    assert_sum(exchange, exchange.result()[0], mine * comm.world.size)


def test_large_sums_leave_what_the_caller_holds_alone(make: Make, comm: ft.Communicator) -> None:
    layout = layout_of("float32", (600_000,))
    exchange = make(layout)
    step = step_of(exchange, spec(layout, "float32"))
    values_held = np.arange(600_000, dtype=np.float32) % 1000
    held = tf.constant(values_held)
    for _ in range(2):
        total, _ = step(held, tf.constant(auxiliary_of(layout, comm)))
        assert_sum(exchange, total, held.numpy() * comm.world.size)
        np.testing.assert_array_equal(held, values_held)
        np.testing.assert_array_equal(exchange.local[:600_000], held)


def test_an_error_in_the_graph_stays_what_it_is(make: Make, comm: ft.Communicator) -> None:
    if comm.world.size > 1:
        pytest.skip("ends a rank, which its peers would wait for")
    layout = layout_of("float32", (4,))
    exchange = make(layout)

    @tf.function(input_signature=spec(layout, "float32"), autograph=False)
    def fused(*parts: Any) -> Any:
        with tf.control_dependencies([tf.debugging.assert_less(parts[0], 0.0)]):
            return exchange.in_graph([tf.identity(part) for part in parts])

    exchange.begin(samples=2, fingerprint=FINGERPRINT)
    with pytest.raises(tf.errors.InvalidArgumentError):
        exchange.run(lambda: fused(tf.ones(4), tf.constant(auxiliary_of(layout, comm))))
    assert comm.failure is None
    assert comm.done == 0


def test_injected_exceptions_come_out_as_they_are(make: Make, comm: ft.Communicator) -> None:
    if comm.world.size > 1:
        pytest.skip("ends a rank, which its peers would wait for")
    layout = layout_of("float32", (4,))
    exchange = make(layout, "raise:rank=0,step=0,at=before-exchange")
    step = step_of(exchange, spec(layout, "float32"))
    with pytest.raises((ft.InjectedFault, tf.errors.OpError)):
        step(tf.ones(4), tf.constant(auxiliary_of(layout, comm)))
    assert isinstance(exchange.error, ft.InjectedFault)


def test_the_library_is_one_small_file(native: Any) -> None:
    assert Path(native.path).stat().st_size < 1 << 20
