"""Spares take the places of ranks that die in a fit: within the step, and with nothing lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.train.runs import (
    PLAIN,
    SCRIPTS,
    assert_whole,
    execute,
    faults,
    matex_run,
    relative_differences,
)

pytestmark = pytest.mark.usefixtures("forked_ranks")

STEPS = 60  # in two fits of three epochs each

Told = dict[str, Any]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[float], Told]:
    """Losses, and what the script tells, of one rank without spares."""
    folder = tmp_path_factory.mktemp("alone")
    outcome = matex_run(folder, "reserve.py", folder, ranks=1)
    return outcome.losses, json.loads((folder / "told-0.json").read_text())


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


def test_spares_take_the_places_of_the_dead_until_they_run_out(
    alone: tuple[list[float], Told], tmp_path: Path
) -> None:
    """One launch, for a launch is dear. Of six, three are spares, and spares alone are left.

    Rank 3 dies waiting. 4 takes the leader's place in the second epoch of the first fit; 5 comes
    back from that fit unneeded and is needed in the second, with validation under way. Then nobody
    is left to replace rank 2.
    """
    losses, wanted = alone
    plan = [
        "kill:rank=3,step=0",
        "kill:rank=0,step=17",
        "kill:rank=1,step=47,at=after-exchange",  # others may have the result: then a step later
        "kill:rank=2,step=55,at=in-exchange",
        "kill:rank=4,step=2",  # while it waits, other steps than its own are none of its business
    ]
    options = ["--spares", "3", *faults(*plan), "--check-every", "7"]
    outcome = matex_run(tmp_path, "reserve.py", tmp_path, ranks=3, options=options)
    assert_whole(outcome, world_size_end=2, losses=losses[1:])  # as rank 4 has seen them
    for rank in (4, 5):
        assert_told_alike(tmp_path, rank, wanted)
    summary = outcome.summary
    assert (summary["spares"], summary["spares_used"], summary["spares_lost"]) == (3, 2, 1)
    assert (summary["world_size_start"], summary["steps"], summary["epochs"]) == (3, STEPS, 6)
    assert outcome.stdout.count("lost rank 3, a spare that waited") == 1
    untold = [e["fault"] for e in outcome.events if e["event"] == "fault-not-fired"]
    assert untold == [plan[4]]
    assert f"the injected fault {plan[4]} never fired" in outcome.stdout
    found = {record["rank"]: record for record in summary["faults"]}
    sizes = {r: (f["world_size_before"], f["world_size_after"]) for r, f in found.items()}
    assert sizes == {0: (3, 3), 1: (3, 3), 2: (3, 2), 3: (None, None)}
    replaced = {rank: record["replaced_by"] for rank, record in found.items()}
    assert replaced == {0: 4, 1: 5, 2: None, 3: None}
    assert found[0]["samples_recomputed"] == found[0]["samples_at_risk"] == 20
    assert all(found[rank]["replicas_equal"] for rank in (0, 1, 2))
    firsts = [e for e in outcome.events if e["event"] == "first-step" and e["step"] == 17]
    assert {e["rank"] for e in firsts} == {1, 2, 4}  # the step of the death has as many ranks


def test_a_spare_joins_only_if_it_reads_in_python_what_the_others_have_read(
    tmp_path: Path,
) -> None:
    """Plain Keras traces in its first step, and a spare's own first step is a later one.

    What the script sets as training begins is the same there; what it sets in each epoch is not.
    """
    plain = tmp_path / "plain"
    plain.mkdir()
    command = [*PLAIN, SCRIPTS / "annealed.py", plain]
    done = execute(command, directory=plain, timeout_s=120)
    assert done.returncode == 0, done.stderr
    plan = ["kill:rank=1,step=11", "kill:rank=0,step=37"]
    options = ["--spares", "2", *faults(*plan)]
    outcome = matex_run(tmp_path, "annealed.py", tmp_path, ranks=2, options=options)
    assert outcome.status == 0, outcome.stderr
    summary = outcome.summary
    assert (summary["world_size_end"], summary["samples_used"]) == (1, 2 * 3 * 128)
    assert [f["rank"] for f in summary["faults"]] == [1, 0, 3]
    assert "cannot read what the others read of factor" in outcome.stderr + outcome.stdout
    losses = json.loads((tmp_path / "losses-2.json").read_text())
    wanted = json.loads((plain / "losses-0.json").read_text())
    assert max(relative_differences(losses[1:], wanted[1:])) < 1e-5
