"""Policies for steps with NaN: how a step is made again, and why it is not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ft
from matex.exchange import Header
from matex.steps.nonfinite import NonfinitePolicy, StepRedo, nonfinite_error

HEADER = Header(samples=8.0, nonfinite=1.0, ranks=2.0)


class OtherRank:
    """Communicator of two ranks, of which the other one's row is known."""

    def __init__(self, *row: int) -> None:
        self._row = row

    def allgather(self, row: np.ndarray) -> ft.Gathered:
        return ft.Gathered(ranks=(0, 1), rows=np.array([row, self._row]))


class AllNonfinite:
    """Layout of many tensors, all of which have non-finite values."""

    def nonfinite_names(self, vector: np.ndarray) -> list[str]:
        return [f"layer_{n}/kernel (7 of 7 values)" for n in range(vector.size)]


class Gathering:
    """Communicator of four ranks, of which some have the row of this one, others none."""

    def __init__(self, guilty: int) -> None:
        self._guilty = guilty

    def allgather(self, row: np.ndarray) -> ft.Gathered:
        rows = [row] * self._guilty + [np.zeros_like(row)] * (4 - self._guilty)
        return ft.Gathered(ranks=(0, 1, 2, 3), rows=np.array(rows))


@pytest.mark.parametrize("guilty", [1, 4])
def test_the_line_is_short_and_names_memory_where_one_rank_differs(guilty: int) -> None:
    layout: Any = AllNonfinite()
    communicator: Any = Gathering(guilty)
    error = nonfinite_error(communicator, layout, np.zeros(40), step=9, why_not="")
    assert "rank 0: layer_0/kernel (7 of 7 values), layer_1/kernel (7 of 7 values) and 38 more" in (
        line := str(error)
    )
    assert ("flipped bits" in line) == (guilty == 1)
    assert ("also ranks 1, 2 and 1 more" in line) == (guilty == 4)
    assert len(line) < 320


def redone(nonfinite: NonfinitePolicy, *, guilty: bool) -> StepRedo | None:
    return nonfinite.redo(guilty=guilty, samples=4, fingerprint=40, header=HEADER)


def policy(name: str, *, other: bool) -> NonfinitePolicy:
    communicator: Any = OtherRank(other, 4, 44)
    one = NonfinitePolicy(name, communicator)
    one.begin()
    return one


def test_the_samples_of_one_rank_are_left_out() -> None:
    one = policy("skip", other=False)
    assert redone(one, guilty=True) == StepRedo(4, 40, False)
    assert one.why_not == ""


def test_why_nothing_can_be_left_out_is_told() -> None:
    one = policy("skip", other=True)
    assert redone(one, guilty=True) is None
    assert one.why_not == "--nonfinite skip would leave no samples: no rank has finite gradients"
    one.begin()
    assert one.why_not == ""


@pytest.mark.parametrize("name", ["skip", "recompute"])
def test_a_second_attempt_is_the_last(name: str) -> None:
    one = policy(name, other=False)
    assert redone(one, guilty=True) is not None
    assert redone(one, guilty=True) is None
    assert one.why_not == f"--nonfinite {name} makes a step again once, which did not help"


def test_stop_needs_no_reason() -> None:
    one = policy("stop", other=True)
    assert redone(one, guilty=True) is None
    assert one.why_not == ""
