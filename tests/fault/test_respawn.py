"""Processes take the places of ranks that are killed, as often as it happens."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci.chaos.respawn.launch import Plan, make, wrong
from ci.testing import leftovers


@pytest.mark.timeout(900)
def test_as_many_ranks_as_at_the_start_are_there_in_the_end(tmp_path: Path) -> None:
    """Two ranks are killed, one after the other; another fit came before."""
    plan = Plan(seed=3, ranks=2, layers="dropout", kills=2, only_whole=True, rest_ms=25.0)
    before = leftovers.shared_memory()
    outcome = make(plan, tmp_path, limit_s=700)
    assert not wrong(plan, outcome), outcome.output
    summary = outcome.summary
    replaced = {fault["rank"]: fault for fault in summary["faults"]}
    assert set(replaced) == {rank for rank, _ in outcome.killed}
    assert all(fault["replaced_by"] is not None for fault in replaced.values())
    assert summary["respawned"] == 2
    assert all(0 < fault["pause_s"] < fault["respawn_s"] for fault in replaced.values())
    assert not leftovers.stray_shared_memory(before)
