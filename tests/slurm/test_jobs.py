"""Jobs of Slurm on one node: cancelled, put back into the queue, several at a time."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from tests.slurm.conftest import Job, training
from tests.train.runs import ROOT

pytestmark = pytest.mark.timeout(600)

Submit = Callable[..., Job]
TWO = ("--nodes=1", "--ntasks=2")
ROWS, BATCH, STEPS = 480, 24, 200
LONG = 1000  # more than Slurm lets a job make that is to end soon


def assert_continued(job: Job, steps: int) -> None:
    """It came to its end in more than one job, and its report tells of all of it."""
    summary, events = job.summary, job.events
    assert summary["status"] == "finished"
    assert any(event["event"] == "resumed" for event in events)
    assert (summary["starts"], summary["epochs"], summary["steps"]) == (
        2,
        steps * BATCH // ROWS,
        steps,
    )
    assert summary["samples_used"] == summary["samples_expected"] == BATCH * steps
    told = [event["epoch"] for event in events if event["event"] == "epoch" and event["rank"] == 0]
    assert sorted(set(told)) == list(range(summary["epochs"]))
    assert sum(event["event"] == "continued" for event in events) == 1


def test_a_cancelled_job_has_saved_and_the_next_one_continues_its_history(submit: Submit) -> None:
    lines = f"exec {{run}} {training(STEPS)}"
    first = submit(*TWO, lines=lines)
    first.wait_for_steps(60)
    first.cluster.run("scancel", first.number)
    first.wait("CANCELLED")
    summary = first.summary
    assert (summary["status"], summary["resumable"]) == ("stopped", True), first.output
    assert summary["reason"] == f"asked to stop after step {summary['steps']} (SIGTERM)"
    assert summary["checkpoints"]["newest_step"] == summary["steps"] < STEPS
    second = submit(*TWO, lines=lines)
    second.wait("COMPLETED")
    assert_continued(second, STEPS)


def test_at_its_time_limit_a_job_has_saved_and_the_next_one_continues_it(submit: Submit) -> None:
    lines = f"exec {{run}} {training(LONG)}"
    first = submit(*TWO, "--time=5", lines=lines)
    first.wait_for_steps(60)
    first.end_in(1)
    first.wait("TIMEOUT")
    summary = first.summary
    assert (summary["status"], summary["resumable"]) == ("stopped", True), first.output
    assert summary["reason"] == f"asked to stop after step {summary['steps']} (SIGTERM)"
    assert summary["checkpoints"]["newest_step"] == summary["steps"] < LONG
    second = submit(*TWO, lines=lines)
    second.wait("COMPLETED")
    assert_continued(second, LONG)


def test_the_sample_script_puts_itself_back_into_the_queue(submit: Submit) -> None:
    text = (ROOT / "examples" / "slurm" / "resume.sh").read_text()
    begin, end = text.index("examples/04_text_lstm.py"), text.index(" &\nrun=$!")
    text = text[:begin] + training(LONG) + text[end:]
    for name in ("report", "saved"):
        text = text.replace(f'"{name}-$SLURM_JOB_ID"', name)
    options = ("--requeue", "--open-mode=append", "--time=5", "--signal=B:USR1@60")
    job = submit(*TWO, *options, lines=f"export VENV={sys.prefix}\n{text}")
    job.wait_for_steps(60)
    job.end_in(60)
    job.wait("PENDING")
    assert job.summary["status"] == "stopped"
    assert "matex: SIGTERM: leaving after the next step" in job.output
    assert 0 < job.summary["steps"] < LONG
    job.start_soon()
    job.wait("COMPLETED")
    assert_continued(job, LONG)


def test_srun_must_not_start_several_of_the_command(submit: Submit) -> None:
    job = submit(*TWO, lines=f"srun -n 2 {{run}} {training(40)}")
    job.wait("FAILED")
    assert "one process of it was wanted. Received: 2 by srun" in job.output
    assert not (job.directory / "report").exists()


@pytest.mark.slow
def test_the_jobs_of_an_array_do_not_disturb_each_other(submit: Submit) -> None:
    place = "mkdir $SLURM_ARRAY_TASK_ID; cd $SLURM_ARRAY_TASK_ID"
    job = submit(*TWO, "--array=1-3", lines=f"{place}; exec {{run}} {training(40)}")
    for number in ("1", "2", "3"):
        one = Job(job.cluster, f"{job.number}_{number}", job.directory / number)
        one.wait("COMPLETED")
        assert one.summary["samples_used"] == one.summary["samples_expected"] == 2 * ROWS


def test_two_jobs_cannot_write_into_one_report(submit: Submit) -> None:
    lines = f"exec {{run}} {training(STEPS)}"
    first = submit(*TWO, lines=lines)
    first.wait_for_steps(4)
    second = submit(*TWO, lines=lines)
    second.wait("FAILED")
    assert "--report must be a directory that no other run uses" in second.output, second.output
