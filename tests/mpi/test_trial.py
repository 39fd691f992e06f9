"""The trial of both ways to sum: all ranks learn the same, also where one dies meanwhile."""

from __future__ import annotations

import numpy as np
import pytest

import ft
from matex.exchange.trial import PlanTimes, try_out
from tests.mpi.routes import in_pairs


def test_all_ranks_learn_the_same(comm: ft.Communicator) -> None:
    if comm.world.size == 1:
        pytest.skip("one rank sums nothing")
    trial = try_out(comm, route_of=in_pairs)
    assert trial is not None
    assert min(trial) > 0
    assert len({row.tobytes() for row in comm.allgather(np.array(trial)).rows}) == 1


def test_after_a_failure_all_go_on_without_it(comm: ft.Communicator) -> None:
    if not comm.ulfm or comm.world.size == 1:
        pytest.skip("repair wants ULFM, and others")
    comm.handle.Revoke()
    assert try_out(comm) is None
    assert comm.agree(True)


@pytest.mark.parametrize(
    ("trial", "is_flat"),
    [(PlanTimes(1.0, 2.0), True), (PlanTimes(1.9, 2.0), False), (PlanTimes(2, 1), False)],
)
def test_what_is_clearly_faster_is_taken(trial: PlanTimes, is_flat: bool) -> None:
    assert trial.prefers_flat is is_flat
