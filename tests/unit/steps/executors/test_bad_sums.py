"""Decisions after a sum that no update can be made with, on one rank without others."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import ft
from matex.errors import NonFiniteGradients, TrainingError
from matex.exchange import Header
from matex.steps.executors.bad_sums import BadSums
from matex.steps.nonfinite import NonfinitePolicy

WRONG = TrainingError("the sum is over other samples")


class Alone:
    """Communicator of one rank."""

    def allgather(self, row: np.ndarray) -> ft.Gathered:
        return ft.Gathered(ranks=(0,), rows=row[None])


class OneTensor:
    """Layout of one tensor."""

    def nonfinite_names(self, vector: np.ndarray) -> list[str]:
        return ["dense/kernel"]


def decided(policy: str, *, nonfinite: bool, explanation: str = "") -> tuple[Any, Any]:
    """Way in which the step is made again, and the repair of its ranks."""
    communicator: Any = Alone()
    services: Any = SimpleNamespace(
        communicator=communicator,
        step=7,
        nonfinite=NonfinitePolicy(policy, communicator),
    )
    account: Any = SimpleNamespace(have=[(0, 4)], fingerprint=40)
    repair: Any = SimpleNamespace(is_closed=False)
    exchange: Any = SimpleNamespace(
        spoiled=nonfinite,
        header=Header(samples=4.0, nonfinite=float(nonfinite), ranks=1.0),
        layout=OneTensor(),
        local=np.array([np.nan]),
    )
    source: Any = SimpleNamespace(explanation=explanation)
    context: Any = SimpleNamespace(services=services, account=account, repair=repair, source=source)
    return BadSums(context).decide_redo(exchange, WRONG), repair


def test_a_step_with_nan_is_made_again_and_no_spare_joins_it() -> None:
    redo, repair = decided("recompute", nonfinite=True)
    assert not redo.samples and not redo.anew
    assert repair.is_closed


def test_a_run_that_stops_says_which_tensor_is_not_finite() -> None:
    with pytest.raises(NonFiniteGradients, match=r"step 7 .*rank 0: dense/kernel"):
        decided("stop", nonfinite=True)


def test_a_sum_over_other_samples_is_told_with_the_explanation_of_the_source() -> None:
    with pytest.raises(TrainingError, match=r"^the sum is over other samples$"):
        decided("recompute", nonfinite=False)
    with pytest.raises(TrainingError, match=r"^step 7: rows differ$"):
        decided("recompute", nonfinite=False, explanation="rows differ")
