"""Spares take the places of ranks that die in a fit: within the step, and with nothing lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.train.runs import Outcome, assert_whole, faults, matex_run, relative_differences

STEPS = 60  # in two fits of three epochs each

Told = dict[str, Any]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[float], Told]:
    """Losses, and what the script tells, of one rank without spares."""
    folder = tmp_path_factory.mktemp("alone")
    outcome = matex_run(folder, "reserve.py", folder, ranks=1)
    return outcome.losses, json.loads((folder / "told-0.json").read_text())


def with_spares(folder: Path, spares: int, *plan: str, ranks: int, exchange: str) -> Outcome:
    options = ["--spares", str(spares), *faults(*plan), "--exchange", exchange]
    return matex_run(
        folder, "reserve.py", folder, ranks=ranks, options=[*options, "--check-every", "7"]
    )


def assert_told_alike(folder: Path, rank: int, wanted: Told) -> None:
    """The script of *rank* saw what that of one rank alone did, whenever it joined."""
    told = json.loads((folder / f"told-{rank}.json").read_text())
    for fit in ("fit-0", "fit-1"):
        assert told[fit]["epoch"] == wanted[fit]["epoch"] == [0, 1, 2]
        assert told[fit]["logs"].keys() == wanted[fit]["logs"].keys()
        for name, values in wanted[fit]["logs"].items():
            assert max(relative_differences(told[fit]["logs"][name], values)) < 1e-4, name
    for name in ("evaluated-0", "evaluated-1"):
        assert max(relative_differences(told[name], wanted[name])) < 1e-4
    assert told["predicted"] == pytest.approx(wanted["predicted"], rel=1e-4)


def test_one_dies_waiting_one_is_needed_in_the_second_fit_and_then_the_world_shrinks(
    alone: tuple[list[float], Told], tmp_path: Path
) -> None:
    """At last a spare is alone: it leads, writes the summary, and knows all that was."""
    losses, wanted = alone
    plan = ["kill:rank=2,step=0", "kill:rank=1,step=47", "kill:rank=0,step=55"]
    outcome = with_spares(tmp_path, 2, *plan, ranks=2, exchange="native")
    assert_whole(outcome, world_size_end=1, losses=losses[-2:])
    assert_told_alike(tmp_path, 3, wanted)
    summary = outcome.summary
    assert (summary["spares"], summary["spares_used"], summary["spares_lost"]) == (2, 1, 1)
    assert (summary["world_size_start"], summary["steps"], summary["epochs"]) == (2, STEPS, 6)
    assert outcome.stdout.count("lost rank 2, a spare that waited") == 1
    found = {record["rank"]: record for record in summary["faults"]}
    replaced, lost = found[1], found[0]
    assert (replaced["world_size_before"], replaced["world_size_after"]) == (2, 2)
    assert (replaced["step"], replaced["replaced_by"]) == (47, 3)
    assert replaced["samples_recomputed"] == replaced["samples_at_risk"] == 30
    assert replaced["replicas_equal"] and lost["replicas_equal"]
    assert (lost["world_size_before"], lost["world_size_after"]) == (2, 1)
    assert lost["replaced_by"] is None
    firsts = [e for e in outcome.events if e["event"] == "first-step" and e["step"] == 47]
    assert {e["rank"] for e in firsts} == {0, 3}  # the step of the death has as many ranks


def test_the_leader_and_another_are_replaced_in_and_after_the_exchange(
    alone: tuple[list[float], Told], tmp_path: Path
) -> None:
    """The second one when validation is under way, and perhaps a step later: others have it."""
    losses, wanted = alone
    plan = ["kill:rank=0,step=7,at=in-exchange", "kill:rank=1,step=25,at=after-exchange"]
    outcome = with_spares(tmp_path, 2, *plan, ranks=3, exchange="host")
    assert_whole(outcome, world_size_end=3, losses=losses)
    for rank in (2, 3, 4):
        assert_told_alike(tmp_path, rank, wanted)
    found = {record["rank"]: record for record in outcome.summary["faults"]}
    assert found.keys() == {0, 1}
    for record in found.values():
        assert (record["world_size_before"], record["world_size_after"]) == (3, 3)
        assert record["replicas_equal"]
    assert {record["replaced_by"] for record in found.values()} == {3, 4}
