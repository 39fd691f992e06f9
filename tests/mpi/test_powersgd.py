"""Gradients that travel in factors: what comes out, and what is kept for the next step."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import ft
from matex.exchange import Header, Layout, Mpi4pyExchange
from matex.exchange.layout import Segment
from matex.exchange.powersgd_sum import PowerSgdSum
from tests.mpi.routes import in_pairs

SHAPES = ((40, 60), (60,), (3, 3, 20, 50), (5, 4))


def exchange_of(comm: ft.Communicator, rank: int, **options: Any) -> Mpi4pyExchange:
    layout = Layout(
        gradients=tuple(Segment(f"gradient {i}", s, "float32") for i, s in enumerate(SHAPES)),
        means=(),
        sums=(Segment("count", (3,), "float32"),),
    )
    injector = ft.Injector((), rank=comm.world.rank)
    return Mpi4pyExchange(comm, layout, faults=injector, compression=f"powersgd:{rank}", **options)


def summed(exchange: Mpi4pyExchange, comm: ft.Communicator, parts: list[np.ndarray]) -> list[Any]:
    size = comm.world.size
    exchange.begin(samples=size, fingerprint=size)
    auxiliary = np.array([1, 2, 3, *Header(samples=1.0, fingerprint=1.0)], np.float32)
    return [part.copy() for part in exchange(*parts, auxiliary)]


def parts_of(rank: int, *, alike: int) -> list[np.ndarray]:
    """Gradients of *rank*, with so many directions, which are the same for all ranks."""
    shared, own = np.random.default_rng(7), np.random.default_rng(rank)
    parts = []
    for shape in SHAPES:
        rows, columns = int(np.prod(shape[:-1])), shape[-1]
        left = shared.normal(size=(rows, alike))
        parts.append((left @ own.normal(size=(alike, columns))).reshape(shape).astype(np.float32))
    return parts


@pytest.mark.parametrize("options", [{}, {"route_of": in_pairs}])
def test_sums_of_low_rank_are_exact(comm: ft.Communicator, options: dict[str, Any]) -> None:
    exchange = exchange_of(comm, 2, **options)
    for _ in range(2):
        *sums, auxiliary = summed(exchange, comm, parts_of(comm.world.rank, alike=2))
        for number, total in enumerate(sums):
            wanted = sum(parts_of(rank, alike=2)[number] for rank in comm.world.ranks)
            np.testing.assert_allclose(total, wanted, rtol=1e-3, atol=1e-3)
        np.testing.assert_array_equal(auxiliary[:3], np.array([1, 2, 3]) * comm.world.size)
        digest = hashlib.sha256(b"".join(total.tobytes() for total in sums)).digest()
        gathered = comm.allgather(np.frombuffer(digest, np.uint8))
        assert len({row.tobytes() for row in gathered.rows}) == 1


def test_what_is_left_out_comes_later(comm: ft.Communicator) -> None:
    """Beside what all ranks keep, the sums of all steps are those of all contributions."""
    if comm.world.size == 1:
        pytest.skip("one rank sends nothing")
    exchange, steps = exchange_of(comm, 1), 12
    mine = parts_of(comm.world.rank, alike=16)
    total = np.zeros(exchange.layout.offsets[-2], np.float32)
    for _ in range(steps):
        summed(exchange, comm, mine)
        total += np.concatenate(
            [exchange.result()[0].reshape(-1), np.zeros(total.size - 2400, np.float32)]
        )
    wanted = steps * sum(parts_of(rank, alike=16)[0] for rank in comm.world.ranks).reshape(-1)
    assert isinstance(exchange._reduction, PowerSgdSum)
    kept = exchange._reduction.powersgd._next_error[:2400].copy()
    everybodys = sum(row for row in comm.allgather(kept).rows)
    scale = np.abs(wanted).max()
    assert np.linalg.norm(everybodys) < 0.7 * np.linalg.norm(wanted)  # less than it would be lost
    np.testing.assert_allclose(total[:2400] + everybodys, wanted, atol=1e-3 * scale)


def test_powersgd_sends_fewer_bytes(comm: ft.Communicator) -> None:
    if comm.world.size == 1:
        pytest.skip("one rank sends nothing")
    few = exchange_of(comm, 1)
    plain = Mpi4pyExchange(
        comm, few.layout, faults=ft.Injector((), rank=comm.world.rank), plan="slices"
    )
    assert few.bytes < plain.bytes / 5


def test_an_overflow_leaves_what_is_kept(comm: ft.Communicator) -> None:
    """A loss scale makes no update then: what the steps before have left out still has to come."""
    if comm.world.size == 1:
        pytest.skip("one rank sends nothing")
    exchange, mine = exchange_of(comm, 1, check_finite=False), parts_of(comm.world.rank, alike=16)
    assert isinstance(exchange._reduction, PowerSgdSum)
    summed(exchange, comm, mine)
    kept = exchange._reduction.powersgd._next_error.copy()
    assert kept.any()
    if comm.world.place == 0:
        mine[0] = np.full_like(mine[0], np.inf)
    summed(exchange, comm, mine)
    assert not np.isfinite(exchange.result()[0]).all()
    np.testing.assert_array_equal(exchange._reduction.powersgd._next_error, kept)


def test_products_start_no_threads_that_wait_on_cores(
    comm: ft.Communicator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TensorFlow computes the next step there: twice as long, when they do."""

    def threads() -> set[int]:
        return {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"}

    def noted(*args: Any, **kwargs: Any) -> Any:
        during.append(threads())
        return product(*args, **kwargs)

    product, during = np.matmul, list[set[int]]()
    exchange = exchange_of(comm, 2)
    with threadpool_limits(2, user_api="blas"):
        monkeypatch.setattr(np, "matmul", noted)
        summed(exchange, comm, parts_of(comm.world.rank, alike=2))
        assert bool(during) == (comm.world.size > 1)  # one rank has nobody to send factors to
        assert all(each == {1} for each in during)
        assert threads() == {2}
