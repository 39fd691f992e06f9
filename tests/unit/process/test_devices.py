"""Cores and GPUs are shared out so that no two ranks get in each other's way."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.patience import patience
from matex.errors import InputError
from matex.process.devices import Cores, Gpu, Neighbour, choose_cores, choose_gpu, take_gpu

ALL = frozenset(range(8))


def host(*cores: frozenset[int], gpus: tuple[bytes, ...] = ()) -> list[Neighbour]:
    """Ranks 3, 4, ... of a host, each with the cores it may use."""
    seen = gpus or (b"",) * len(cores)
    return [Neighbour(3 + i, c, g) for i, (c, g) in enumerate(zip(cores, seen, strict=True))]


@pytest.mark.parametrize(
    ("ranks", "threads", "expected"),
    [
        (1, 0, [Cores(8)]),
        (2, 0, [Cores(4, (0, 1, 2, 3)), Cores(4, (4, 5, 6, 7))]),
        (3, 0, [Cores(2)] * 3),  # two cores are left over: for whom the system decides
        (8, 0, [Cores(1, (core,)) for core in range(8)]),
        (9, 0, [Cores(1)] * 9),
        (2, 1, [Cores(1)] * 2),
        (4, 2, [Cores(2, (2 * i, 2 * i + 1)) for i in range(4)]),
        (2, 16, [Cores(16)] * 2),
    ],
)
def test_cores_are_shared_by_the_ranks_of_a_host(
    ranks: int, threads: int, expected: list[Cores]
) -> None:
    here = host(*[ALL] * ranks)
    assert [choose_cores(here, n.rank, threads=threads) for n in here] == expected


def test_spares_take_no_cores_from_those_who_work() -> None:
    here = host(*[ALL] * 4)
    working = [choose_cores(here, n.rank, working=5) for n in here[:2]]
    assert working == [Cores(4, (0, 1, 2, 3)), Cores(4, (4, 5, 6, 7))]
    assert [choose_cores(here, n.rank, working=5) for n in here[2:]] == [Cores(4)] * 2
    assert choose_cores(here, 6, working=2) == Cores(8)  # on a host of their own


def test_ranks_that_a_launcher_has_bound_keep_what_they_were_given() -> None:
    bound = host(frozenset({0, 1}), frozenset({2, 3}))
    assert [choose_cores(bound, n.rank) for n in bound] == [Cores(2), Cores(2)]
    by_socket = host(*[frozenset({0, 1})] * 2, *[frozenset({2, 3})] * 2)
    assert [choose_cores(by_socket, n.rank).kept_on for n in by_socket] == [(0,), (1,), (2,), (3,)]
    overlapping = host(frozenset({0, 1}), frozenset({1, 2}))
    assert [choose_cores(overlapping, n.rank) for n in overlapping] == [Cores(1), Cores(1)]


@given(st.integers(1, 64), st.integers(1, 80))
def test_threads_never_exceed_cores_but_for_one_each(cores: int, ranks: int) -> None:
    here = host(*[frozenset(range(cores))] * ranks)
    chosen = [choose_cores(here, n.rank) for n in here]
    assert sum(c.threads for c in chosen) <= max(cores, ranks)
    kept = [core for c in chosen for core in c.kept_on]
    assert len(kept) == len(set(kept))


BLAS = """
from threadpoolctl import threadpool_info
from matex.process.devices import Cores, take_cores
take_cores(Cores({threads}), asked_for={asked_for})
print(*{{pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}})
"""


@pytest.mark.parametrize(
    ("environment", "threads", "asked_for", "expected"),
    [
        ({}, 1, False, 1),
        ({}, 2, False, 2),
        ({"OPENBLAS_NUM_THREADS": "2"}, 1, False, 2),
        ({"OMP_NUM_THREADS": "2"}, 1, False, 2),
        ({"OPENBLAS_NUM_THREADS": "2"}, 1, True, 1),
    ],
)
def test_the_blas_that_is_loaded_already_gets_no_more_threads_than_its_rank(
    environment: dict[str, str], threads: int, asked_for: bool, expected: int
) -> None:
    clean = {k: v for k, v in os.environ.items() if not k.endswith("_NUM_THREADS")}
    code = BLAS.format(threads=threads, asked_for=asked_for)
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=clean | environment,
        capture_output=True,
        text=True,
        timeout=patience(60),
        check=True,
    )
    assert done.stdout.split() == [str(expected)]


@pytest.mark.parametrize(
    ("gpus", "ranks", "expected", "said"),
    [
        (0, 3, [None] * 3, ""),
        (1, 1, [0], ""),
        (4, 4, [0, 1, 2, 3], ""),
        (2, 5, [0, 1, 0, 1, 0], "5 ranks of a host share its 2 GPUs"),
        (1, 2, [0, 0], "2 ranks of a host share its 1 GPU:"),
        (4, 3, [0, 1, 2], "1 of a host's 4 GPUs stay idle"),
    ],
)
def test_each_rank_takes_the_next_gpu(
    gpus: int, ranks: int, expected: list[int | None], said: str
) -> None:
    here = host(*[ALL] * ranks)
    chosen = [choose_gpu(gpus, here, n.rank) for n in here]
    assert [gpu.number for gpu in chosen] == expected
    assert all(gpu.note.startswith(said) and bool(gpu.note) == bool(said) for gpu in chosen)


def test_a_rank_that_was_given_a_gpu_takes_that_one() -> None:
    here = host(ALL, ALL, gpus=(b"0", b"1"))
    assert [choose_gpu(1, here, n.rank) for n in here] == [Gpu(0), Gpu(0)]


class Config:
    """Stands for ``tf.config`` where there are no GPUs."""

    def __init__(self, error: str = "") -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.experimental = self
        self._error = error

    def list_physical_devices(self, kind: str) -> list[str]:
        return [f"{kind}:0", f"{kind}:1"]

    def set_visible_devices(self, device: str, kind: str) -> None:
        if self._error:
            raise RuntimeError(self._error)
        self.calls.append(("visible", device, kind))

    def set_memory_growth(self, device: str, enable: bool) -> None:
        self.calls.append(("growth", device, enable))


def test_tensorflow_sees_the_chosen_gpu_alone_and_takes_its_memory_as_needed() -> None:
    config = Config()
    take_gpu(Gpu(1), config)
    assert config.calls == [("visible", "GPU:1", "GPU"), ("growth", "GPU:1", True)]


def test_without_a_gpu_tensorflow_is_left_alone() -> None:
    config = Config()
    take_gpu(Gpu(None), config)
    assert config.calls == []


def test_a_gpu_in_use_is_too_late() -> None:
    with pytest.raises(InputError, match=r"matex.init\(\) first.*Received: too late"):
        take_gpu(Gpu(0), Config("too late"))
