"""A run whose ranks all died goes on from its checkpoint, with another number of ranks."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import checkpoints
from checkpoints.fence import FENCE
from tests import slow
from tests.train.runs import Outcome, assert_whole, matex_run, relative_differences

ARGUMENTS = ["--epochs", "3", "--optimizer", "sgd", "--validate", "--falling"]
SAMPLES, BATCH, EVERY = 2000, 128, 5


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return matex_run(tmp_path_factory.mktemp("whole"), "classify.py", *ARGUMENTS, ranks=2)


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoints of a run of two ranks that all died after batch 9 of the second epoch."""
    folder = tmp_path_factory.mktemp("interrupted")
    saved = folder / "saved"
    options = ["--checkpoint", saved, "--checkpoint-every", str(EVERY)]
    outcome = matex_run(
        folder, "classify.py", *ARGUMENTS, "--end-all-at", "9", ranks=2, options=options
    )
    assert outcome.status == 1
    assert outcome.summary["status"] == "failed"
    assert "the last ranks were killed without a word" in outcome.stderr
    return saved


@pytest.mark.parametrize("ranks", slow.all_but([3], [1, 3, 5]))
def test_resumes_in_the_middle_of_an_epoch(
    ranks: int, whole: Outcome, interrupted: Path, tmp_path: Path
) -> None:
    saved = shutil.copytree(interrupted, tmp_path / "saved")
    newest = checkpoints.Store(saved).newest_valid()
    assert newest is not None
    cursor = newest[1].cursor
    assert (cursor["step"], cursor["epoch"], cursor["samples"]) == (25, 1, 9 * BATCH)
    options = ["--checkpoint", saved]
    outcome = matex_run(tmp_path, "classify.py", *ARGUMENTS, ranks=ranks, options=options)
    assert_whole(outcome, world_size_end=ranks, losses=whole.losses[1:])
    summary = outcome.summary
    assert summary["samples_used"] == 3 * SAMPLES - SAMPLES - 9 * BATCH
    assert summary["steps"] == 3 * 16 - 25
    for name, value in whole.summary["metrics"].items():
        assert summary["metrics"][name] == pytest.approx(value, rel=1e-4), name
    assert "continuing from the checkpoint of step 25" in outcome.stdout
    anew = "begin anew: attribute epochs (generator) of the callback Jittering\n"
    assert outcome.stdout.count(anew) == 1
    assert (saved / FENCE).read_text() == "2 0\n"  # ranks of the first start write no more


def test_other_batches_than_the_checkpoints_are_told_of(interrupted: Path, tmp_path: Path) -> None:
    saved = shutil.copytree(interrupted, tmp_path / "saved")
    arguments = [*ARGUMENTS, "--batch-size", "100"]
    outcome = matex_run(
        tmp_path, "classify.py", *arguments, ranks=2, options=["--checkpoint", saved]
    )
    assert outcome.status == 0, outcome.stderr
    change = f"batches of 100 rows after a checkpoint of {BATCH}"
    assert f"the fit goes on otherwise than before: with {change}" in outcome.stdout
    assert outcome.summary["numbers"] == f"of plain Keras but for: {change}"


@pytest.mark.slow
def test_a_stream_resumes_in_the_middle_of_an_epoch(tmp_path: Path) -> None:
    """tf.data, shuffled: the batches that were trained on are gone through and left out."""
    arguments = ["--kind", "tf-data", "--samples", "600", "--batch-size", "64", *ARGUMENTS[:4]]
    losses = matex_run(tmp_path, "classify.py", *arguments, ranks=1).losses
    options = ["--checkpoint", tmp_path / "saved", "--checkpoint-every", "5"]
    died = matex_run(
        tmp_path, "classify.py", *arguments, "--end-all-at", "7", ranks=2, options=options
    )
    assert died.status == 1
    outcome = matex_run(tmp_path, "classify.py", *arguments, ranks=3, options=options)
    assert_whole(outcome, world_size_end=3, losses=losses[1:])
    assert outcome.summary["samples_used"] == 3 * 600
    assert (outcome.summary["starts"], outcome.summary["epochs"]) == (2, 3)


@pytest.mark.slow
def test_a_finished_run_is_not_made_again(tmp_path: Path) -> None:
    options = ["--checkpoint", tmp_path / "saved"]
    first = matex_run(tmp_path, "classify.py", "--epochs", "1", ranks=2, options=options)
    assert first.summary["steps"] == 16
    again = matex_run(tmp_path, "classify.py", "--epochs", "1", ranks=2, options=options)
    assert again.status == 0
    assert "epoch" not in {e["event"] for e in again.events[len(first.events) :]}
    for name in ("steps", "epochs", "samples_expected", "samples_used", "metrics"):
        assert again.summary[name] == first.summary[name], name
    longer = matex_run(tmp_path, "classify.py", "--epochs", "2", ranks=1, options=options)
    assert (longer.summary["starts"], longer.summary["steps"]) == (3, 32)
    losses = longer.losses
    once = matex_run(tmp_path, "classify.py", "--epochs", "2", ranks=2)
    assert max(relative_differences(losses, once.losses[1:])) < 1e-4


def test_resumes_in_the_second_of_two_fits(tmp_path: Path) -> None:
    """The first is passed over; the second goes on with the model, and with its log."""
    log = tmp_path / "log.csv"
    arguments = ["--fits", "2", "--epochs", "3", "--optimizer", "sgd", "--log", str(log)]
    saved = tmp_path / "saved"
    options = ["--checkpoint", saved, "--checkpoint-every", "5", "--keep", "100"]
    whole = matex_run(tmp_path, "classify.py", *arguments, ranks=1, options=options)
    losses = whole.losses
    assert len(losses) == 6 and whole.summary["steps"] == 96
    rows = log.read_text().splitlines()
    for path in checkpoints.Store(saved).list()[-3:]:  # back to the middle of the last epoch
        path.unlink()
    options = ["--checkpoint", saved]
    rest = matex_run(tmp_path, "classify.py", *arguments, ranks=2, options=options)
    begun = [e["step"] for e in rest.events if e["event"] == "resumed"]
    assert 80 < begun[0] < 96 and rest.summary["steps"] == 96
    assert rest.summary["samples_used"] == whole.summary["samples_used"]
    assert_whole(rest, world_size_end=2, losses=losses[5:])
    assert log.read_text().splitlines()[:-1] == rows[:-1] and len(rows) == 4
    assert "passed over" in rest.stdout


def test_a_rank_dies_while_checkpoints_are_written(whole: Outcome, tmp_path: Path) -> None:
    """All write each of them together; what rank 0 was to write of one, another does."""
    options = ["--checkpoint", tmp_path / "saved", "--checkpoint-every", "4"]
    options += ["--checkpoint-part-mb", "0.0001"]
    options += ["--inject", "kill:rank=0,step=12,at=checkpoint"]
    outcome = matex_run(tmp_path, "classify.py", *ARGUMENTS, ranks=3, options=options)
    assert_whole(outcome, world_size_end=2, losses=whole.losses)
    newest = checkpoints.Store(tmp_path / "saved").newest_valid()
    assert newest is not None and newest[1].step == 48
    written = {e["step"]: e["parts"] for e in outcome.events if e["event"] == "checkpoint"}
    assert [written[step] for step in (4, 8, 12)] == [3, 3, 1]
    assert {written[step] for step in (20, 24, 28, 36, 40, 44, 48)} == {2}
    assert not outcome.summary["checkpoints"]["failed"]
    assert (tmp_path / "saved" / FENCE).read_text() == "1 1\n"  # nor does one that was left


def test_a_checkpoint_of_another_model_is_refused(interrupted: Path, tmp_path: Path) -> None:
    options = ["--checkpoint", shutil.copytree(interrupted, tmp_path / "saved")]
    outcome = matex_run(
        tmp_path, "classify.py", "--epochs", "2", "--kind", "two-inputs", ranks=2, options=options
    )
    assert outcome.status == 1
    assert "another model" in outcome.stderr
    assert len(outcome.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("name", "reason", "status"), [("file/saved", "file", 2), ("saved", ".fence", 1)]
)
def test_a_directory_that_cannot_be_used_is_refused_at_once(
    name: str, reason: str, status: int, tmp_path: Path
) -> None:
    """A file is in its place, or a directory in that of its fence."""
    (tmp_path / "file").write_text("in the way")
    (tmp_path / "saved" / FENCE).mkdir(parents=True)
    options = ["--checkpoint", tmp_path / name]
    outcome = matex_run(tmp_path, "classify.py", "--epochs", "1", ranks=2, options=options)
    assert outcome.status == status
    (line,) = outcome.stderr.strip().splitlines()
    assert reason in line
