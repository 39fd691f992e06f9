"""Virtual workers: one set of bits, whatever the ranks do."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import checkpoints
from tests.train.runs import PLAIN, SCRIPTS, Outcome, execute, faults, matex_run

OPTIONS = ["--deterministic", "--virtual", "4"]
STEPS, FITS, EPOCHS = 4, 3, 2  # an epoch's, of 171 rows in batches of 50
SCRIPT = "deterministic.py"


def hashes(outcome: Outcome) -> dict[int, set[str]]:
    """The hashes of weights and optimizer after each epoch, by the steps that are done."""
    found: dict[int, set[str]] = {}
    for event in outcome.events:
        if event["event"] == "epoch":
            found.setdefault(event["step"], set()).add(event["weights_hash"])
    return found


def run(place: Path, *, ranks: int, options: list[str]) -> Outcome:
    return matex_run(place, SCRIPT, ranks=ranks, options=[*OPTIONS, *options])


def losses(text: str) -> dict[str, list[float]]:
    """The losses of the validation that the script printed, by model."""
    lines = [line.split() for line in text.splitlines() if not line.startswith("matex:")]
    return {name: [float(number) for number in numbers] for name, *numbers in lines}


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """A run of one rank, with a checkpoint of each fifth step, and a spare that dies in vain."""
    place = tmp_path_factory.mktemp("alone")
    saves = ["--checkpoint", str(place / "saved"), "--checkpoint-every", "5", "--keep", "99"]
    options = [*saves, "--spares", "1", *faults("kill:rank=1,step=0")]
    outcome = run(place, ranks=1, options=options)
    assert outcome.status == 0, outcome.stderr
    assert len(hashes(outcome)) == FITS * EPOCHS
    return outcome


def test_a_spare_that_dies_beside_a_rank_that_works_alone_is_told(alone: Outcome) -> None:
    assert alone.summary["spares_lost"] == 1
    assert alone.stdout.count("lost rank 1, a spare that waited") == 1


def test_ranks_that_die_and_a_spare_that_joins_change_no_bit(
    alone: Outcome, tmp_path: Path
) -> None:
    plan = faults(
        "kill:rank=1,step=2,at=in-exchange",
        "kill:rank=3,step=11,at=after-exchange",
        "kill:rank=0,step=19,at=compute",
    )
    outcome = run(tmp_path, ranks=3, options=["--spares", "1", *plan])
    assert outcome.status == 0, outcome.stderr
    summary = outcome.summary
    assert (summary["world_size_end"], summary["spares_used"]) == (1, 1)
    assert summary["samples_used"] == summary["samples_expected"]
    assert hashes(outcome) == hashes(alone)
    assert set(summary["weights_hash"].values()) == set(alone.summary["weights_hash"].values())
    assert losses(outcome.stdout) == losses(alone.stdout)


def test_a_run_that_goes_on_with_other_ranks_and_shares_changes_no_bit(
    alone: Outcome, tmp_path: Path
) -> None:
    saved = shutil.copytree(alone.report.parent / "saved", tmp_path / "saved")
    store = checkpoints.Store(saved)
    while (newest := store.newest_valid()) and newest[1].step > 15:
        newest[0].unlink()
    # Another number of virtual workers is given, and that of the checkpoint counts.
    options = ["--checkpoint", str(saved), "--balance", "--exchange", "host", "--virtual", "16"]
    outcome = run(tmp_path, ranks=3, options=options)
    assert outcome.status == 0, outcome.stderr
    assert "virtual workers: 4 share each batch" in outcome.stdout
    after = hashes(outcome)
    assert after == {step: hashes(alone)[step] for step in after}
    assert min(after) == 16
    assert max(after) == max(hashes(alone))


def test_virtual_workers_come_to_the_numbers_of_plain_keras(alone: Outcome, tmp_path: Path) -> None:
    plain = execute([*PLAIN, SCRIPTS / SCRIPT], directory=tmp_path)
    assert plain.returncode == 0, plain.stderr
    ours, theirs = losses(alone.stdout), losses(plain.stdout)
    for name in ("dense", "recurrent"):
        assert ours[name] == pytest.approx(theirs[name], rel=1e-4), name
    told = "of plain Keras but for: BatchNormalization by parts of the batch"
    assert alone.summary["numbers"].startswith(told)
