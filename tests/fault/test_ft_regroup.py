"""Ranks leave a common computation before its end: all together, or some, who end themselves."""

from __future__ import annotations

import pytest

import ft
from tests.fault.programs import add, begin, end_by, mark
from tests.fault.ranks import run

STEPS = 6


def compute_and_leave(leaving: list[int], late: int) -> None:
    """*leaving* raise after half of the steps, *late* of them one step later."""
    communicator = begin()
    ft.on_fail_stop(lambda reason: mark("reason", [reason, type(ft.program_error()).__name__]))
    rank = communicator.world.rank
    try:
        for step in range(6):
            if rank in leaving and step == 3 + (rank == late):
                raise ValueError("left")
            mark(f"sum-{step}", add(communicator, step))
    except ValueError as error:
        if not communicator.regroup("it left the sums"):
            ft.fail_stop("left alone", error=error)
        mark("regrouped", communicator.world.ranks)
        mark("after", add(communicator, 9))
    mark("world", communicator.world.ranks)


def test_all_leave_and_go_on_together() -> None:
    job = run(compute_and_leave, ranks=3, leaving=[0, 1, 2], late=-1)
    assert job.ended == {0, 1, 2}, job.output
    assert set(job["after"].values()) == {job["after"][0]}
    assert job["world"] == {rank: [0, 1, 2] for rank in range(3)}


@pytest.mark.parametrize("leaving", [[1], [0], [0, 2]])
def test_who_leaves_while_others_go_on_ends_itself(leaving: list[int]) -> None:
    job = run(compute_and_leave, ranks=3, leaving=leaving, late=-1)
    staying = {0, 1, 2} - set(leaving)
    assert job.ended == staying, job.output
    assert job["regrouped"] == {}
    said = ["left alone", "ValueError"]
    assert job["reason"] == {rank: said for rank in leaving}
    for rank in staying:
        assert job["world"][rank] == sorted(staying)
        for step in range(STEPS):
            assert rank in job[f"sum-{step}"]


def test_one_that_leaves_a_step_later_is_waited_for_no_longer() -> None:
    """It is in a sum that the others never come to: it ends itself, or they do."""
    job = run(compute_and_leave, ranks=3, leaving=[0, 1, 2], late=2)
    assert job.ended in ({2}, {0, 1}), job.output


def leave_from_within_the_repair(dying: int, leaving: int) -> None:
    """*dying* is killed between two sums, and *leaving* raises in the repair and catches that."""
    communicator = begin()
    ft.on_fail_stop(lambda reason: mark("reason", [reason, type(ft.program_error()).__name__]))
    rank = communicator.world.rank

    class Raising(ft.Hooks):
        def recovery_point(self) -> None:
            if rank == leaving:
                raise ValueError("left in the repair")

    communicator.attach(Raising())
    try:
        for step in range(6):
            if rank == dying and step == 3:
                end_by("SIGKILL")
            mark(f"sum-{step}", add(communicator, step))
    except ValueError as error:
        mark("regrouped", communicator.regroup("it left the sums"))
        ft.fail_stop("left alone", error=error)
    mark("world", communicator.world.ranks)


def test_who_leaves_the_repair_itself_comes_to_no_other_repair() -> None:
    job = run(leave_from_within_the_repair, ranks=4, dying=1, leaving=2)
    assert job.ended == {0, 3}, job.output
    assert job["regrouped"] == {2: False}
    assert job["reason"] == {2: ["left alone", "ValueError"]}
    assert job["world"] == {rank: [0, 3] for rank in (0, 3)}
