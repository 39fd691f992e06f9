"""Jobs of Slurm on several nodes: a rank dies, a node is lost, the job is cancelled."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from tests.slurm.conftest import Job, training

pytestmark = pytest.mark.timeout(600)

Submit = Callable[..., Job]
EACH = ("--nodes=3", "--ntasks-per-node=1")
BATCH, STEPS = 24, 200


def assert_finished(job: Job, *, ranks: int) -> None:
    summary = job.summary
    assert (summary["status"], summary["world_size_end"]) == ("finished", ranks), job.output
    assert summary["samples_used"] == summary["samples_expected"] == BATCH * summary["steps"]
    assert summary["samples_lost"] == summary["samples_repeated"] == 0
    assert len(set(summary["weights_hash"].values())) == 1


def test_a_killed_rank_is_survived_on_several_nodes(submit: Submit) -> None:
    """Also in a job that exports no variables, for which srun would start no daemon."""
    kill = "--inject kill:rank=2,step=12"
    job = submit(*EACH, "--export=NONE", lines=f"exec {{run}} {kill} {training(60)}")
    job.wait("COMPLETED")
    assert_finished(job, ranks=2)
    (fault,) = job.summary["faults"]
    assert (fault["overcome"], fault["rank"]) == ("in-place", 2)


def test_a_job_on_several_nodes_saves_when_it_is_cancelled(submit: Submit) -> None:
    job = submit(*EACH, lines=f"exec {{run}} {training(STEPS)}")
    job.wait_for_steps(60)
    job.cluster.run("scancel", job.number)
    job.wait("CANCELLED")
    summary = job.summary
    assert (summary["status"], summary["resumable"]) == ("stopped", True), job.output
    assert summary["checkpoints"]["newest_step"] == summary["steps"]
    assert summary["reason"] in job.output, "mpiexec has lost its daemons by then"


def test_a_lost_node_is_survived_in_place_and_slurm_lets_the_others_go_on(submit: Submit) -> None:
    """Also when Slurm notices, 10 s later than the ranks: it would end the step of the others."""
    job = submit(*EACH, "--no-kill", lines=f"exec {{run}} {training(600)}")
    job.wait_for_steps(60)
    job.cluster.sever(3)
    job.wait("COMPLETED", timeout_s=200)
    assert_finished(job, ranks=2)
    assert job.summary["restarts"] == 0
    assert job.cluster.node_state(3).startswith("down")


def test_ranks_are_started_again_without_a_node_that_is_set_down(submit: Submit) -> None:
    """Slurm ends its processes by SIGTERM, which its rank may hear before its daemon does.

    By that signal a rank asks all to stop.
    """
    job = submit(*EACH, "--no-kill", lines=f"exec {{run}} --max-restarts 1 {training(200)}")
    job.wait_for_steps(60)
    (started,) = (e for e in job.events if e["event"] == "start" and e["host"] == "host3")
    os.kill(started["pid"], signal.SIGTERM)
    job.cluster.run("scontrol", "update", "NodeName=host3", "State=DOWN", "Reason=fan")
    job.wait("COMPLETED")
    assert_finished(job, ranks=2)
    assert job.summary["restarts"] == 1
    (again,) = (event for event in job.events if event["event"] == "restart")
    assert again["hosts"] == {"host1": 1, "host2": 1}
    assert again["reason"].startswith("host3: "), "taken away, or no answer any more"


@pytest.mark.slow
def test_without_no_kill_the_job_is_queued_again_and_continues(submit: Submit) -> None:
    options = ("--nodes=2", "--ntasks-per-node=1", "--requeue", "--open-mode=append")
    job = submit(*options, lines=f"exec {{run}} {training(1200)}")
    job.wait_for_steps(60)
    job.cluster.sever(2)
    job.wait("PENDING")
    job.start_soon(nodes=2)
    job.wait("COMPLETED", timeout_s=200)
    assert_finished(job, ranks=2)
    assert any(event["event"] == "resumed" for event in job.events)
    assert (job.summary["starts"], job.summary["steps"]) == (2, 1200)
    assert sum(event["event"] == "continued" for event in job.events) == 1


def test_the_ranks_leave_a_node_that_is_drained_when_the_job_is_told(submit: Submit) -> None:
    job = submit(*EACH, lines=f"exec {{run}} {training(400)}")
    try:
        job.wait_for_steps(60)
        tell = ("scancel", "--batch", "--signal=USR2", job.number)
        job.cluster.run(*tell)
        job.wait_for_line("SIGUSR2: Slurm drains no host of the ranks: host1 ")
        drain = ("scontrol", "update", "NodeName=host3", "State=DRAIN", "Reason=fan")
        job.cluster.run(*drain)
        job.cluster.run(*tell)
        job.wait_for_line("drain host3: rank 2 leaves")
        job.wait("COMPLETED")
    finally:
        job.cluster.run("scontrol", "update", "NodeName=host3", "State=RESUME")
    assert_finished(job, ranks=2)
    (resize,) = (event for event in job.events if event["event"] == "resize")
    assert (resize["host"], resize["leaving"], resize["world_size"]) == ("host3", [2], 2)
    assert job.summary["restarts"] == 0


@pytest.mark.slow
def test_a_cold_spare_takes_the_place_of_a_rank_of_its_node(submit: Submit) -> None:
    options = f"--respawn 3 --inject kill:rank=3,step=40 {training(700)}"
    # Two slots on the first node, which had two of the three cold spares, and the last none.
    job = submit("--nodes=3", "--ntasks=4", lines=f"exec {{run}} {options}")
    job.wait("COMPLETED", timeout_s=200)
    assert_finished(job, ranks=4)
    (fault,) = job.summary["faults"]
    assert fault["replaced_by"], job.output
    hosts = {event["rank"]: event["host"] for event in job.events if event["event"] == "start"}
    assert hosts[fault["replaced_by"]] == hosts[3] == "host3"
