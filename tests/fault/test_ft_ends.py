"""However a rank ends, the others finish the work and leave together."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import ft
from tests.fault.programs import add, begin, end_by, mark, total
from tests.fault.ranks import run

RANKS = 3
STEPS = 6

ENDS = (
    "SIGKILL",
    "SIGSEGV",
    "os._exit(0)",
    "os._exit(1)",
    "sys.exit(1)",
    "uncaught exception",
    "exception in a thread",
    "SystemExit under shielded()",
)


def one_ends(how: str, victim: int, at: int, steps: int) -> None:
    communicator = begin()
    sums = []
    for step in range(steps):
        if communicator.world.rank == victim and step == at:
            end_by(how)
        sums.append(add(communicator, step))
    mark("sums", sums)
    mark("world", [communicator.world.ranks, communicator.done])


@pytest.mark.parametrize("victim", [0, RANKS - 1])
@pytest.mark.parametrize("how", ENDS)
def test_the_others_go_on(how: str, victim: int) -> None:
    job = run(one_ends, ranks=RANKS, how=how, victim=victim, at=3, steps=STEPS)
    survivors = set(range(RANKS)) - {victim}
    assert job["dying"] == {victim: how}
    assert job.ended == survivors, job.output
    assert set(job["sums"]) == survivors
    for rank in survivors:
        assert job["sums"][rank] == [total(step) for step in range(STEPS)]
        assert job["world"][rank] == [sorted(survivors), STEPS]


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("uncaught exception", "RuntimeError: a bug on one rank"),
        ("exception in a thread", "ValueError: invalid literal for int()"),
    ],
)
def test_what_went_wrong_is_printed_before_the_end(how: str, said: str) -> None:
    job = run(one_ends, ranks=2, how=how, victim=1, at=0, steps=1)
    assert "Traceback (most recent call last)" in job.output
    assert said in job.output
    assert job.ended == {0}


def two_exit_quietly() -> None:
    communicator = begin()
    for step in range(4):
        if step == 2:
            try:
                sys.exit(1)
            except SystemExit as stop:
                mark("caught", stop.code)
        add(communicator, step)
    mark("world", communicator.world.ranks)


def test_a_caught_sys_exit_is_harmless() -> None:
    job = run(two_exit_quietly, ranks=2)
    assert job["caught"] == {0: 1, 1: 1}
    assert job["world"] == {0: [0, 1], 1: [0, 1]}
    assert job.ended == {0, 1}


def all_end_by(how: str) -> None:
    communicator = begin()
    add(communicator, 0)
    if how == "leave":
        communicator.leave()
        communicator.leave()
        try:
            communicator.barrier()
        except ft.ClosedError as error:
            mark("closed", str(error))
        for call in (lambda: communicator.admit(None), lambda: communicator.set_aside(1)):
            try:
                call()
            except (ft.ClosedError, ft.UsageError) as error:
                mark("refused", str(error))
    elif how == "sys.exit(0)":
        sys.exit(0)
    elif how == "shielded SystemExit(0)":
        with ft.shielded():
            raise SystemExit(0)


@pytest.mark.parametrize("how", ["no word", "leave", "sys.exit(0)", "shielded SystemExit(0)"])
@pytest.mark.parametrize("ranks", [1, 3])
def test_a_normal_end_is_a_common_one(how: str, ranks: int) -> None:
    job = run(all_end_by, ranks=ranks, how=how)
    assert job.ended == set(range(ranks)), job.output
    if how == "leave":
        assert set(job["closed"]) == set(range(ranks))
        assert "was left" in job["closed"][0]


# As on several hosts.
DETECTOR = {
    "OMPI_MCA_mpi_ft_detector": "1",
    "OMPI_MCA_mpi_ft_detector_period": "3",
    "OMPI_MCA_mpi_ft_detector_timeout": "20",
}


def sizes_differ() -> None:
    communicator = begin()
    send = np.ones(5 if communicator.world.rank == 1 else 4)
    try:
        communicator.allgather(send)
    except ft.UsageError as error:
        mark("refused", str(error))


@pytest.mark.parametrize("ranks", [2, 3])  # of two, rank 1 completes the operation
def test_buffers_of_other_sizes_are_told_and_not_tried_for_ever(ranks: int) -> None:
    job = run(sizes_differ, ranks=ranks)
    assert set(job["refused"]) >= set(range(ranks)) - {1}, job.output
    assert "of one size on all ranks" in job["refused"][0]


def never_settles() -> None:
    from mpi4py import MPI

    from ft.repair import repair

    communicator = begin()

    def settle(new: MPI.Comm) -> None:
        if communicator.world.rank == 1:
            raise MPI.Exception(MPI.ERR_INTERN)

    try:
        repair(MPI.COMM_WORLD.Dup(), settle, await_notice=False)
    except ft.Unrecoverable as error:
        mark("told", str(error))


def test_repairs_that_always_fail_without_a_death_are_given_up() -> None:
    job = run(never_settles, ranks=2)
    assert set(job["told"]) == job.ended == {0, 1}
    assert "MPI_ERR_INTERN" in job["told"][1]


@pytest.mark.parametrize("victim", [2, -1], ids=["a rank dies", "nobody dies"])
def test_with_the_failure_detector_the_job_ends_too(victim: int) -> None:
    job = run(
        one_ends, ranks=3, environment=DETECTOR, how="SIGKILL", victim=victim, at=3, steps=STEPS
    )
    wanted = [total(step) for step in range(STEPS)]
    assert job["sums"] == {rank: wanted for rank in range(3) if rank != victim}


def without_ulfm() -> None:
    from mpi4py import MPI

    communicator = begin()
    mark("ulfm", [communicator.ulfm, ft.has_ulfm()])

    def broken(comm: object) -> None:
        raise MPI.Exception(MPI.ERR_OTHER)

    try:
        communicator.attempt(np.empty(1), broken)
    except ft.Unrecoverable as error:
        mark("error", str(error))


def test_without_ulfm_a_failure_says_what_is_missing() -> None:
    job = run(without_ulfm, ranks=2, ulfm=False)
    assert job["ulfm"] == {0: [False, False], 1: [False, False]}
    for rank in (0, 1):
        assert "--with-ft ulfm" in job["error"][rank]
        assert "\n" not in job["error"][rank]
    assert job.ended == {0, 1}
