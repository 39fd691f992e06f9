"""Several hosts whose network breaks: one world goes on, and it is whole."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ci.network import partitions
from tests.train.runs import assert_whole, faults, matex_run

FOREVER = 0


@pytest.fixture
def network() -> Iterator[Callable[[int], Any]]:
    """A function: how many hosts -> their network, gone after the test."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces need root and the command ip")
    with ExitStack() as stack:

        def make(hosts: int) -> Any:
            try:
                return stack.enter_context(partitions.emulated(hosts, partitions.FAST))
            except (OSError, subprocess.CalledProcessError) as error:
                pytest.skip(f"no such network can be made here: {error}")

        yield make


def test_of_two_hosts_with_a_rank_each_one_is_enough_where_the_other_is_dead(
    network: Callable[[int], Any], tmp_path: Path
) -> None:
    """It is only the half, so the launcher asks the other host."""
    found = network(2)
    arguments = ["classify.py", "--epochs", "2", "--optimizer", "sgd"]
    alone = matex_run(tmp_path / "alone", *arguments, ranks=1)
    outcome = matex_run(
        tmp_path / "two",
        *arguments,
        ranks=2,
        options=["--hosts", found.hosts(1), *faults("kill:rank=0,step=10")],
        environment=found.environment,
        within=found.head,
    )
    assert_whole(outcome, world_size_end=1, losses=alone.losses)


@pytest.mark.parametrize(
    ("hosts", "slots", "cut", "seconds", "left"),
    [
        pytest.param(3, 1, "one", FOREVER, 2, id="one of three"),
        pytest.param(4, 1, "half", FOREVER, 2, id="halves", marks=pytest.mark.slow),
        pytest.param(3, 1, "head", FOREVER, 3, id="the launcher's"),
        pytest.param(2, 1, "half", 8, 2, id="a short cut"),
        pytest.param(4, 1, "half", 8, 4, id="a short cut of four", marks=pytest.mark.slow),
        pytest.param(3, 1, "one", 14, 2, id="one that comes back", marks=pytest.mark.slow),
        pytest.param(3, 1, "one-way", FOREVER, 2, id="one way", marks=pytest.mark.slow),
        pytest.param(3, 1, "frozen", 14, 2, id="a host stands still", marks=pytest.mark.slow),
        pytest.param(3, 2, "one", FOREVER, 4, id="a host of two ranks", marks=pytest.mark.slow),
    ],
)
def test_one_world_goes_on(
    hosts: int,
    slots: int,
    cut: str,
    seconds: float,
    left: int,
    network: Callable[[int], Any],
    tmp_path: Path,
) -> None:
    case = partitions.Case(hosts, slots, cut, seconds)
    *wrong, line = partitions.try_out(case, network(hosts), tmp_path)
    print(line)
    assert not wrong
    assert f"finished, {left} ranks at the end" in line
