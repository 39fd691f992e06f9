"""A rank without progress is ended, by itself or by its neighbours, and the others go on."""

from __future__ import annotations

import contextlib
import os
import signal
import threading

import pytest

import ft
from tests.fault.programs import Watched, add, begin, mark, seen, total, wait_for
from tests.fault.ranks import run

STEPS = 4


def watched(what: str, victim: int, steps: int) -> None:
    communicator = begin()
    rank = communicator.world.rank
    ft.on_fail_stop(lambda reason: mark("death", reason))
    dog = ft.Watchdog(
        timeout_s=2.0,
        stopped_after_s=0.5,
        neighbours=lambda: communicator.world.neighbours,
        say=lambda line: mark("said", line),
    )
    communicator.attach(Watched(dog))
    dog.start()
    sums = []
    for step in range(steps):
        with dog.working():
            if rank == victim and step == 2:
                mark("dying", what)
                if what == "stuck":
                    threading.Event().wait()
                elif what == "stopped":
                    os.kill(os.getpid(), signal.SIGSTOP)
            sums.append(add(communicator, step))
    mark("sums", sums)

    class Stopping(Watched):
        @contextlib.contextmanager
        def waiting(self):
            with dog.waiting():
                yield
            mark("dying", what)
            os.kill(os.getpid(), signal.SIGSTOP)

    if rank == victim and what == "stopped after the last meeting":
        communicator.attach(Stopping(dog))
    communicator.leave()
    dog.stop()


@pytest.mark.parametrize(
    ("what", "victim"),
    [
        *(("stuck", 0), ("stuck", 2), ("stopped", 0), ("stopped", 2)),
        ("stopped after the last meeting", 1),
    ],
)
def test_a_silent_rank_is_ended_and_the_others_finish(what: str, victim: int) -> None:
    job = run(watched, ranks=3, what=what, victim=victim, steps=STEPS)
    survivors = {0, 1, 2} - {victim}
    assert job["dying"] == {victim: what}
    assert job.ended == survivors, job.output
    for rank in survivors:
        assert job["sums"][rank] == [total(step) for step in range(STEPS)]
    if what == "stuck":
        assert set(job["said"]) == {victim}
        assert job["said"][victim].startswith("made no progress for ")
        assert job["death"] == job["said"]
    else:
        assert set(job["said"]) <= survivors
        for line in job["said"].values():
            assert line.startswith(f"rank {victim} (process ")
            assert "has been stopped" in line
        assert job["said"], "nobody said that it ended the stopped rank"


def unrequited() -> None:
    """Rank 1 waits in a collective that rank 0, though busy all the time, never enters."""
    communicator = begin()
    ft.on_fail_stop(lambda reason: mark("death", reason))
    dog = ft.Watchdog(timeout_s=0.5, say=lambda line: mark("said", line))
    communicator.attach(Watched(dog))
    dog.start()
    if communicator.world.rank == 0:

        def over() -> bool:
            dog.progress()
            return seen("death", 1)

        with dog.working():
            wait_for(over)
    communicator.barrier()
    communicator.leave()
    mark("members", communicator.world.ranks)
    dog.stop()


def test_whoever_waits_much_longer_than_work_may_last_ends_itself() -> None:
    job = run(unrequited, ranks=2)
    assert set(job["said"]) == {1}
    assert job["said"][1].startswith("waited in a collective for ")
    assert job["members"] == {0: [0]}
    assert job.ended == {0}


def woken(victim: int, steps: int) -> None:
    """Nobody ends the stopped rank, as on another host: the detector declares it dead."""
    communicator = begin()
    rank = communicator.world.rank
    pid = communicator.world.members[victim].pid
    ft.on_fail_stop(lambda reason: mark("death", reason))
    dog = ft.Watchdog(timeout_s=20.0, stopped_after_s=0.5)
    communicator.attach(Watched(dog))
    dog.start()
    sums = []
    for step in range(steps):
        if rank == victim and step == 2:
            mark("dying", "stopped")
            os.kill(os.getpid(), signal.SIGSTOP)
        sums.append(add(communicator, step))
    mark("sums", sums)
    if communicator.world.is_leader:
        os.kill(pid, signal.SIGCONT)
    communicator.leave()
    dog.stop()


DETECTOR = {
    "OMPI_MCA_mpi_ft_detector": "1",
    "OMPI_MCA_mpi_ft_detector_period": "0.5",
    "OMPI_MCA_mpi_ft_detector_timeout": "2",
}


def deaf(seconds: int) -> None:
    """One rank holds the interpreter, as a library that reads a large file may."""
    import ctypes

    communicator = begin()
    if communicator.world.rank == 1:
        ctypes.PyDLL(None).sleep(seconds)
    add(communicator, 0)
    mark("members", [member.rank for member in communicator.world.members])
    communicator.leave()


def test_a_rank_that_computes_for_longer_than_the_time_out_is_not_taken_for_silent() -> None:
    patient = {**DETECTOR, "OMPI_MCA_mpi_ft_detector_timeout": "4"}
    job = run(deaf, ranks=3, environment=patient, seconds=10)
    assert job["members"] == {rank: [0, 1, 2] for rank in range(3)}, job.output
    assert job.ended == {0, 1, 2}


def test_a_stopped_rank_that_is_woken_ends_itself() -> None:
    job = run(woken, ranks=3, environment=DETECTOR, victim=2, steps=STEPS)
    assert job["dying"] == {2: "stopped"}
    assert job["sums"] == {rank: [total(step) for step in range(STEPS)] for rank in (0, 1)}
    if not job["death"]:  # Open MPI can be the first to see it
        assert "I have been reported dead by someone else" in job.output
        return
    assert set(job["death"]) == {2}, job.output
    assert job["death"][2].startswith("was stopped for ")


def frozen(steps: int, *, seconds: float) -> None:
    """All ranks of a host stand still together; when they are woken, one of them is dead."""
    import subprocess
    import sys

    communicator = begin()
    rank, members = communicator.world.rank, communicator.world.members
    dog = ft.Watchdog(
        timeout_s=20.0,
        stopped_after_s=0.5,
        may_be_given_up=lambda: ft.may_be_given_up(communicator.world),
    )
    communicator.attach(Watched(dog))
    dog.start()
    sums = []
    for step in range(steps):
        if rank == 0 and step == 2:
            freeze = (
                "import os, signal, sys, time\n"
                "victim, *others = pids = [int(word) for word in sys.argv[2:]]\n"
                "for pid in pids: os.kill(pid, signal.SIGSTOP)\n"
                "time.sleep(float(sys.argv[1]))\n"
                "os.kill(victim, signal.SIGKILL)\n"
                "for pid in others: os.kill(pid, signal.SIGCONT)\n"
            )
            pids = [str(members[who].pid) for who in (1, 0, 2)]
            subprocess.run([sys.executable, "-c", freeze, str(seconds), *pids], check=True)
        sums.append(add(communicator, step))
    mark("sums", sums)
    communicator.leave()
    dog.stop()


def test_ranks_of_one_host_that_stood_still_together_outlive_one_of_them() -> None:
    job = run(frozen, ranks=3, steps=STEPS, seconds=2.0)
    assert job.ended == {0, 2}, job.output
    assert job["sums"] == {rank: [total(step) for step in range(STEPS)] for rank in (0, 2)}
