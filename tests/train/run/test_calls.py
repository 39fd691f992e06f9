"""Ranks that come to different calls: nothing hangs, and the true reason is told."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests import slow
from tests.train.runs import SCRIPTS, execute, matex_run


@pytest.mark.parametrize(
    ("case", "first", "others"),
    slow.all_but(
        ["evaluates-on-one"],
        [
            ("evaluates-on-one", "evaluate", "fit number 1"),
            ("trains-in-batches-on-one", "train_on_batch", "fit number 1"),
            ("ends-on-one", "the end of the script", "fit number 1"),
        ],
    ),
)
def test_different_calls_end_the_run(case: str, first: str, others: str, tmp_path: Path) -> None:
    outcome = matex_run(tmp_path, "part_ways.py", case, ranks=3)
    assert outcome.status == 1
    assert f"Received: {first} on rank 0, {others} on ranks 1 2; does the" in outcome.stderr
    assert outcome.summary["status"] == "failed"


def test_a_fit_of_other_epochs_ends_the_run(tmp_path: Path) -> None:
    outcome = matex_run(tmp_path, "part_ways.py", "fits-longer-on-one", ranks=2)
    assert outcome.status == 1
    assert "all ranks must call fit alike: (samples, batch size, parameters, " in outcome.stderr
    assert "0, 3, -1] on rank 0" in outcome.stderr
    assert "0, 2, -1] on rank 1" in outcome.stderr
    assert outcome.summary["status"] == "failed"


@pytest.mark.parametrize("case", ["eager-caught-all"])
def test_an_exception_that_all_ranks_catch_changes_nothing(case: str, tmp_path: Path) -> None:
    plain = execute([sys.executable, SCRIPTS / "part_ways.py", case], directory=tmp_path)
    shared = matex_run(tmp_path, "part_ways.py", case, ranks=3)
    assert shared.status == 0, shared.stderr
    lines = plain.stdout.splitlines()
    assert [line for line in shared.stdout.splitlines() if line in lines] == lines
    assert shared.summary["world_size_end"] == 3


@pytest.mark.parametrize(
    "case", slow.all_but(["caught-first"], ["caught-one", "caught-first", "eager-caught-one"])
)
def test_who_catches_it_alone_is_lost_by_that_name(case: str, tmp_path: Path) -> None:
    shared = matex_run(tmp_path, "part_ways.py", case, ranks=3)
    assert shared.status == 0, shared.stderr
    assert "the end" in shared.stdout
    victim = 0 if case.endswith("first") else 1
    (lost,) = shared.summary["ranks_lost"]
    assert (lost["rank"], lost["cause"]) == (victim, "script")
    *_, last = shared.stderr.splitlines()
    assert last.startswith(f"matex: went on without rank {victim} at step ")
    assert "ValueError: enough of it (part_ways.py, line " in last
