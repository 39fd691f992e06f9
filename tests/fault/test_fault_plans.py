"""A plan from a file: faults by step, time and event in one run, and one that never fires."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.train.runs import assert_whole, matex_run

pytestmark = pytest.mark.usefixtures("forked_ranks")

PLAN = """\
# strikes in the first recovery there is: that of rank 1
kind,rank,step,time,event,count,at
slow,0,3,,,,
kill,2,,0,,,recovery
kill,1,,,epoch,1,compute
kill,2,20,,,,
"""


def test_a_plan_is_carried_out_as_written(tmp_path: Path) -> None:
    plan = tmp_path / "plan.csv"
    plan.write_text(PLAN)
    arguments = ["--epochs", "2", "--optimizer", "sgd"]
    (tmp_path / "alone").mkdir()
    alone = matex_run(tmp_path / "alone", "classify.py", *arguments, ranks=1)
    outcome = matex_run(
        tmp_path, "classify.py", *arguments, ranks=4, options=["--inject-file", plan]
    )
    assert_whole(outcome, world_size_end=2, losses=alone.losses)
    records = [(r["kind"], r["rank"], r["step"], r["at"]) for r in outcome.summary["faults"]]
    assert records == [
        ("slow", 0, 3, "compute"),
        ("kill", 1, 16, "compute"),
        ("kill", 2, 16, "recovery"),
    ]
    assert [r["samples_at_risk"] for r in outcome.summary["faults"]] == [None, 32, 32]
    for record in outcome.summary["faults"][1:]:  # both lost in one recovery
        assert record["samples_lost"] == record["samples_repeated"] == 0
        assert record["samples_recomputed"] == 64
        assert record["replicas_equal"] and len(record["state_hash"]) == 16
        assert 0 < record["replay_s"] < record["to_next_step_s"]
    rows = (outcome.report / "faults.csv").read_text().splitlines()
    assert len(rows) == 1 + 3
    untold = [e for e in outcome.events if e["event"] == "fault-not-fired"]
    assert [(e["fault"], e["ranks"]) for e in untold] == [("kill:rank=2,step=20", [2])]
    assert "kill:rank=2,step=20 never fired" in outcome.stdout
