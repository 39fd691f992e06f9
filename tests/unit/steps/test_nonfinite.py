"""Policies for steps with NaN: how a step is made again, and why it is not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ft
from matex.exchange import Header
from matex.steps.nonfinite import Nonfinite, StepRedo

HEADER = Header(samples=8.0, nonfinite=1.0, ranks=2.0)


class OtherRank:
    """Communicator of two ranks, of which the other one's row is known."""

    def __init__(self, *row: int) -> None:
        self._row = row

    def allgather(self, row: np.ndarray) -> ft.Gathered:
        return ft.Gathered(ranks=(0, 1), rows=np.array([row, self._row]))


def judged(nonfinite: Nonfinite, *, guilty: bool) -> StepRedo | None:
    return nonfinite.judge(guilty=guilty, samples=4, fingerprint=40, header=HEADER)


def policy(name: str, *, other: bool) -> Nonfinite:
    communicator: Any = OtherRank(other, 4, 44)
    one = Nonfinite(name, communicator)
    one.begin()
    return one


def test_the_samples_of_one_rank_are_left_out() -> None:
    one = policy("skip", other=False)
    assert judged(one, guilty=True) == StepRedo(4, 40, False)
    assert one.why_not == ""


def test_why_nothing_can_be_left_out_is_told() -> None:
    one = policy("skip", other=True)
    assert judged(one, guilty=True) is None
    assert one.why_not == "--nonfinite skip would leave no samples: no rank has finite gradients"
    one.begin()
    assert one.why_not == ""


@pytest.mark.parametrize("name", ["skip", "recompute"])
def test_a_second_attempt_is_the_last(name: str) -> None:
    one = policy(name, other=False)
    assert judged(one, guilty=True) is not None
    assert judged(one, guilty=True) is None
    assert one.why_not == f"--nonfinite {name} makes a step again once, which did not help"


def test_stop_needs_no_reason() -> None:
    one = policy("stop", other=True)
    assert judged(one, guilty=True) is None
    assert one.why_not == ""
