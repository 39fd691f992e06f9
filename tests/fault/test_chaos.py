"""A fixed part of the chaos suite; ``python -m ci.chaos`` makes thousands of runs."""

from __future__ import annotations

import sys

import pytest

from tests.fault.ranks import execute, scratch

# How many runs of a layer, from which seed on, and what some of them must have.
PARTS = {
    "ft": (8, 168, "aside)"),
    "loop": (3, 0, "at=in-exchange"),
    "strategies": (6, 57, "in-strategy"),
}


@pytest.mark.parametrize("layer", PARTS)
def test_random_faults_break_nothing(layer: str) -> None:
    count, seed, some = PARTS[layer]
    chaos = [sys.executable, "-m", "ci.chaos", "--layer", layer]
    with scratch() as directory:
        output = execute(
            [*chaos, "--runs", str(count), "--seed", str(seed)], directory=directory, timeout_s=100
        )
    runs = [line for line in output.splitlines() if line.startswith("seed ")]
    assert len(runs) >= count
    assert any(some in line for line in runs)
    assert all(line.endswith(": ok") for line in runs), output
