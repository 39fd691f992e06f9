"""Runs that are asked to stop, and runs that are lost and started again by their supervisor."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

import checkpoints
from ci.patience import patience
from tests.train.runs import Outcome, assert_whole, matex_run, relative_differences

STEPS_PER_EPOCH = 8


# Mounts a disk of one megabyte on its first word, seen by the command after it alone.
SMALL_DISK = 'mount -t tmpfs -o size=1m none "$0" && exec "$@"'


def interrupted(
    folder: Path, *arguments: str, ranks: int, at: str, what: str, **more: object
) -> Outcome:
    """Run the script with an interruption.

    Args:
        at, what: time and kind of the interruption; several of them with blanks between.
    """
    folder.mkdir(exist_ok=True)
    words = [*arguments, "--at", *at.split(), "--what", *what.split()]
    return matex_run(folder, "interrupted.py", *words, ranks=ranks, **more)  # type: ignore[arg-type]


def epoch_losses(outcome: Outcome) -> dict[int, float]:
    """The loss of each epoch whose end was reached, over all starts."""
    return {e["epoch"]: e["loss"] for e in outcome.events if e["event"] == "epoch"}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    """The losses of a run that nothing happens to."""
    return matex_run(tmp_path_factory.mktemp("whole"), "interrupted.py", ranks=1).losses


def test_a_run_asked_to_stop_saves_and_is_continued(whole: list[float], tmp_path: Path) -> None:
    """Twice, in the middle of an epoch and at its very end, on other numbers of ranks."""
    saved = tmp_path / "saved"
    options = ["--checkpoint", saved]
    # A request after a batch travels with the next one, after which all leave.
    first = interrupted(
        tmp_path / "1", ranks=3, at="1:2", what="SIGUSR1:last-rank", options=options
    )
    assert first.status == 75, first.stderr
    assert (first.summary["status"], first.summary["resumable"]) == ("stopped", True)
    assert first.summary["steps"] == STEPS_PER_EPOCH + 4
    assert "SIGUSR1" in first.summary["reason"]
    newest = checkpoints.Store(saved).newest_valid()
    assert newest is not None
    assert newest[1].cursor["step"] == 12
    second = interrupted(
        tmp_path / "2", ranks=1, at="1:6", what="SIGTERM:last-rank", options=options
    )
    assert second.status == 75, second.stderr
    assert second.summary["steps"] == 4
    assert epoch_losses(second) == {}
    third = matex_run(tmp_path, "interrupted.py", ranks=2, options=options)
    assert_whole(third, world_size_end=2, losses=whole[1:])
    # What the callbacks remember of the first epoch decides about the rate and about the end.
    assert len(whole) == 4
    assert third.summary["steps"] == 2 * STEPS_PER_EPOCH
    assert epoch_losses(first) == pytest.approx({0: whole[0]}, rel=1e-4)


def test_a_custom_loop_is_saved_and_continued(tmp_path: Path) -> None:
    """Steps of train_on_batch and of a tape in turn."""
    saved = tmp_path / "saved"
    options = ["--checkpoint", saved]
    stopped = matex_run(tmp_path / "1", "custom_loop.py", ranks=2, options=options)
    assert stopped.status == 75, stopped.stderr
    assert (stopped.summary["status"], stopped.summary["resumable"]) == ("stopped", True)
    newest = checkpoints.Store(saved).newest_valid()
    assert newest is not None
    assert (newest[1].cursor["loop"], len(newest[1].weights)) == (5, 4)
    rest = matex_run(tmp_path / "2", "custom_loop.py", ranks=1, options=options)
    assert rest.status == 0, rest.stderr
    assert "continued after 5 steps, same: True" in rest.stdout
    assert "no checkpoint is made" not in stopped.stdout + rest.stdout
    newest = checkpoints.Store(saved).newest_valid()
    assert newest is not None and newest[1].cursor["loop"] == 10
    options = ["--checkpoint", tmp_path / "none"]
    alone = matex_run(tmp_path / "3", "custom_loop.py", "--unsaved", ranks=1, options=options)
    assert alone.status == 1
    assert (alone.summary["status"], alone.summary["resumable"]) == ("stopped", False)
    assert "only the script can continue a custom loop" in alone.summary["reason"]


def test_signals_to_matex_run_reach_the_ranks(tmp_path: Path) -> None:
    """Thousands of epochs, of which a few are made."""
    saved = tmp_path / "saved"
    options = ["--checkpoint", saved]
    stopped = interrupted(
        tmp_path / "1", "--endless", ranks=2, at="0:3", what="SIGTERM:matex-run", options=options
    )
    assert stopped.status == 75, stopped.stderr
    assert stopped.stderr == ""
    assert stopped.summary["status"] == "stopped"
    assert "(SIGTERM)" in stopped.summary["reason"]
    assert "SIGTERM: leaving after the next step" in stopped.stdout
    assert stopped.stdout.count(stopped.summary["reason"]) == 1
    newest = checkpoints.Store(saved).newest_valid()
    assert newest is not None
    assert newest[1].step == stopped.summary["steps"]
    clock = matex_run(  # continues the report, in which it is said that SIGTERM came before
        tmp_path / "1",
        "interrupted.py",
        "--endless",
        ranks=1,
        options=[*options, "--wall-time", "00:00:20"],
    )
    assert clock.status == 75, clock.stderr
    assert "wall time" in clock.summary["reason"]
    assert clock.summary["wall_s"] < 20 + stopped.summary["wall_s"]
    without = interrupted(tmp_path / "3", "--endless", ranks=1, at="0:3", what="SIGTERM:matex-run")
    assert without.status == 1
    assert without.summary["status"] == "stopped"
    assert "--checkpoint DIR was not given" in without.summary["reason"]
    options = ["--checkpoint", tmp_path / "none"]
    twice = interrupted(
        tmp_path / "4",
        "--endless",
        ranks=2,
        at="0:3",
        what="SIGINT:matex-run-twice",
        options=options,
    )
    assert twice.status in (1, 75)  # it may have come to its end before the second arrived


# Its output goes to a pipe whose reader has ended, as after a terminal has gone.
UNREAD = ["bash", "-c", '"$@" | true; exit ${PIPESTATUS[0]}', "unread"]


@pytest.mark.parametrize(
    ("what", "status", "ends"),
    [("SIGTERM:matex-run", 75, "stopped"), ("SIGKILL:all-ranks", 0, "finished")],
)
def test_a_run_whose_output_nobody_reads_is_stopped_and_started_again_as_any(
    what: str, status: int, ends: str, tmp_path: Path
) -> None:
    options = ["--checkpoint", tmp_path / "saved", "--max-restarts", "1"]
    words = ["--once", str(tmp_path / "once")]
    outcome = interrupted(
        tmp_path / "1", *words, ranks=2, at="0:3", what=what, options=options, within=UNREAD,
        alone=False,
    )  # fmt: skip
    assert outcome.status == status, outcome.stderr
    assert outcome.summary["status"] == ends
    assert outcome.summary["restarts"] == (status == 0)


def test_the_supervisor_starts_a_lost_run_again(whole: list[float], tmp_path: Path) -> None:
    """Every rank and mpiexec are killed, then, for there is no ULFM, one rank.

    What was in the memory of this host is there.
    """
    options = ["--memory-every", "0.02", "--max-restarts", "2"]
    outcome = interrupted(
        tmp_path, "--once", str(tmp_path / "once"), ranks=2, at="1:4 2:4",
        what="SIGKILL:whole-job SIGKILL:last-rank", options=options,
        environment={"MATEX_ULFM": "0"},
    )  # fmt: skip
    assert outcome.status == 0, outcome.stderr
    summary = outcome.summary
    assert (summary["status"], summary["restarts"]) == ("finished", 2)
    assert (summary["world_size_start"], summary["world_size_end"]) == (2, 2)
    for record in summary["faults"]:
        assert (record["overcome"], record["kind"]) == ("restart", "loss")
        assert record["to_next_step_s"] > 0
    starts = [e for e in outcome.events if e["event"] == "start"]
    assert [e["ulfm"] for e in starts] == 6 * [False]
    assert not [e for e in outcome.events if e["event"] == "recovered"]
    losses = epoch_losses(outcome)
    assert max(relative_differences([losses[e] for e in range(4)], whole)) < 1e-4
    # How much is in memory by then depends on the disk and on who else computes.
    first, second = (e["step"] for e in outcome.events if e["event"] == "resumed" and not e["rank"])
    assert 1 <= first <= 13
    assert first <= second <= 21
    assert summary["checkpoints"]["memory"] > 0
    assert summary["checkpoints"]["files"] == summary["checkpoints"]["failed"] == 0
    assert "starting 2 ranks again" in outcome.stdout
    left = [path.name.split("-") for path in Path("/dev/shm").glob("matex-*")]
    assert all(Path(f"/proc/{name[2]}").exists() for name in left)  # those of other runs


def test_the_step_that_ends_an_epoch_is_saved_as_any_other(tmp_path: Path) -> None:
    """The rank is killed in the next step, before which the file is whole."""
    options = ["--max-restarts", "1", "--checkpoint", str(tmp_path / "saved")]
    outcome = interrupted(
        tmp_path, "--epochs", "2", "--once", str(tmp_path / "once"), ranks=1, at="1:0",
        what="SIGKILL:last-rank", options=[*options, "--checkpoint-every", str(STEPS_PER_EPOCH)],
    )  # fmt: skip
    assert outcome.status == 0, outcome.stderr
    assert [e["step"] for e in outcome.events if e["event"] == "resumed"] == [STEPS_PER_EPOCH]


@pytest.mark.slow
def test_ranks_that_died_are_started_again_at_a_checkpoint(
    whole: list[float], tmp_path: Path
) -> None:
    """--grow: one of two is killed in the first epoch, at whose end both are there again."""
    options = ["--grow", "--checkpoint", tmp_path / "saved", "--inject", "kill:rank=1,step=4"]
    outcome = interrupted(tmp_path, ranks=2, at="", what="", options=options)
    assert outcome.status == 0, outcome.stderr
    summary = outcome.summary
    sizes = summary["world_size_start"], summary["world_size_end"]
    assert (summary["status"], sizes, summary["restarts"]) == ("finished", (2, 2), 0)
    (record,) = summary["faults"]
    assert (record["overcome"], record["world_size_after"]) == ("in-place", 1)
    (grown,) = (e for e in outcome.events if e["event"] == "grow")
    assert (grown["step"], grown["world_size"], grown["ranks"]) == (STEPS_PER_EPOCH, 1, 2)
    (resumed,) = {e["step"] for e in outcome.events if e["event"] == "resumed"}
    assert resumed == STEPS_PER_EPOCH
    losses = epoch_losses(outcome)
    assert max(relative_differences([losses[e] for e in range(4)], whole)) < 1e-4
    assert len(set(summary["weights_hash"].values())) == 1


@pytest.mark.slow
def test_a_run_that_gives_no_sign_of_life_is_started_again(tmp_path: Path) -> None:
    options = ["--max-restarts", "1", "--hang-timeout", "4"]
    options += ["--checkpoint", str(tmp_path / "saved"), "--checkpoint-every", "3"]
    outcome = interrupted(
        tmp_path, "--once", str(tmp_path / "once"), ranks=1, at="1:4", what="SIGSTOP:last-rank",
        options=options,
    )  # fmt: skip
    assert outcome.status == 0, outcome.stderr
    assert outcome.summary["restarts"] == 1
    assert "no sign of life" in outcome.stdout
    (resumed,) = (e["step"] for e in outcome.events if e["event"] == "resumed")
    assert 8 <= resumed <= 12  # what had reached the disk before all stood still


@pytest.mark.slow
def test_what_fails_again_and_again_is_given_up(tmp_path: Path) -> None:
    options = ["--checkpoint", tmp_path / "saved", "--max-restarts", "9"]
    outcome = interrupted(tmp_path, ranks=1, at="0:4", what="SIGKILL:last-rank", options=options)
    assert outcome.status == 1
    assert json.loads((outcome.report / "summary.json").read_text())["restarts"] == 2
    (line,) = outcome.stderr.splitlines()
    assert "step 5 failed 3 times in a row" in line


def small_disk(mount_point: Path) -> list[str]:
    """The words that execute a command which has a small disk there; none: it cannot be made."""
    mount_point.mkdir()
    for namespaces in ("-rm", "-m"):  # as any user, as root
        words = ["unshare", namespaces, "sh", "-c", SMALL_DISK, str(mount_point)]
        try:
            subprocess.run([*words, "true"], check=True, capture_output=True, timeout=patience(30))
        except (OSError, subprocess.CalledProcessError):
            continue
        return words
    return []


def test_a_full_disk_and_a_vanished_directory_stop_nothing(
    whole: list[float], tmp_path: Path
) -> None:
    """Full after step 10, until step 17; after step 22 the directory is not there any more."""
    disk = tmp_path / "disk"
    within = small_disk(disk)
    saved = disk / "saved"
    full = (("1:1", f"FILL:{disk}"), ("2:0", f"EMPTY:{disk}")) if within else ()
    at, what = zip(*full, ("2:5", f"VANISH:{saved}"), strict=True)
    outcome = interrupted(
        tmp_path, ranks=1, at=" ".join(at), what=" ".join(what), within=within,
        options=["--checkpoint", saved, "--checkpoint-every", "3"],
    )  # fmt: skip
    assert_whole(outcome, world_size_end=1, losses=whole)
    found = outcome.summary["checkpoints"]
    assert found["newest_step"] == 21
    assert "has vanished" in found["last_failure"]
    failures = [e for e in outcome.events if e["event"] == "checkpoint-failed"]
    assert {24, 27, 30, 32} <= {e["step"] for e in failures}
    assert found["failed"] == len(failures)
    assert not saved.exists()
    *first, last = outcome.stderr.splitlines()  # once each, not each time
    assert "no checkpoint of step 24, training goes on and will try again" in last
    if not within:
        pytest.skip("no small disk can be mounted here, so only the vanished directory was tried")
    (line,) = first
    assert "no checkpoint of step 12, training goes on and will try again" in line
    assert "No space left on device" in line
    assert {12, 15} <= {e["step"] for e in failures if "No space left" in e["reason"]}
    steps = {e["step"] for e in outcome.events if e["event"] == "checkpoint"}
    assert {3, 6, 9, 18, 21} <= steps and not steps & {12, 15}
