"""Place at which a run goes on: after a checkpoint, or beside ranks that it joins."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from matex.config import Config
from matex.config.virtual import VIRTUAL
from matex.records.summary import Totals
from matex.run.ledger import RunLedger
from matex.run.processor import Threads
from matex.run.ranks import RunRanks
from matex.run.run_checkpoints import RunCheckpoints


def parts(joining: Any = None) -> tuple[RunCheckpoints, RunLedger, RunRanks]:
    ledger = RunLedger(Totals(world_size_start=2))
    ranks = RunRanks(replace(Config(), deterministic=True), 2, Threads())
    return RunCheckpoints(None, ledger, ranks, joining), ledger, ranks  # type: ignore[arg-type]


def test_a_new_run_passes_over_nothing() -> None:
    checkpoints, ledger, _ = parts()
    checkpoints.continue_from(None)
    assert (checkpoints.saved, ledger.step, checkpoints.passes_over(0)) == (None, 0, False)


def test_a_run_goes_on_where_its_checkpoint_was_made() -> None:
    checkpoints, ledger, ranks = parts()
    saved: Any = SimpleNamespace(step=12, cursor={"fit": 2, VIRTUAL: 8})
    checkpoints.continue_from(saved)
    assert (checkpoints.saved, ledger.step, ranks.virtual_workers) == (saved, 12, 8)
    assert [checkpoints.passes_over(fit) for fit in range(4)] == [True, True, False, False]


def test_a_rank_that_joins_passes_over_what_the_others_have_made() -> None:
    checkpoints, _, _ = parts(SimpleNamespace(passes_over=lambda fit: fit == 0))
    assert [checkpoints.passes_over(fit) for fit in range(2)] == [True, False]
