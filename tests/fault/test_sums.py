"""Sums over rows and over members, while ranks die before, in and after each part of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.fault.programs import begin, end_by, mark, once_in_call, seen, wait_for
from tests.fault.ranks import run

BATCHES = [(0, 10), (10, 10), (10, 137)]
ROUNDS = 3


def sum_rows(batches: list[tuple[int, int]], rounds: int, deaths: dict[str, str]) -> None:
    """Sum a number that each row has; the ranks in *deaths* die in the second round."""
    from matex.exchange import sums
    from matex.partition.spans import assigned

    communicator = begin()
    how = deaths.get(str(communicator.world.rank), "none")
    summing = [int(rank) for rank, way in deaths.items() if way == "summing"]

    class Rows:
        def __init__(self, dies: str) -> None:
            self.have = [[] for _ in batches]
            self.sum, self.dies, self.computed = np.zeros(3), dies, 0

        def assigned_rows(self) -> list[list[tuple[int, int]]]:
            now, rank = communicator.pending, communicator.world.rank
            return [assigned(tuple(span), now.expected, now.lost, rank) for span in batches]

        def compute_rows(self, missing: list[list[tuple[int, int]]]) -> None:
            self.computed += 1
            if self.dies == ("", "computing", "computing again")[min(self.computed, 2)]:
                end_by("SIGKILL")
            for batch, spans in enumerate(missing):
                for lo, hi in spans:
                    self.sum[batch] += (np.arange(lo, hi) + 1).sum()

        def forget_rows(self) -> None:
            self.sum[:] = 0

        def packed_rows(self) -> np.ndarray:
            if self.dies == "summing":
                once_in_call(lambda: end_by("SIGKILL"))
            elif self.dies:  # the others come when it is inside, and gone
                wait_for(lambda: all(seen("dying", rank) for rank in summing))
            return self.sum.copy()

    found = [
        sums.over_rows(communicator, Rows(how if r == 1 else "")).tolist() for r in range(rounds)
    ]
    mark("found", found)
    communicator.leave()


PLANS = [
    {0: "computing"},
    {2: "summing"},
    {1: "computing", 3: "summing"},
    {1: "computing", 0: "computing again"},
    {0: "summing", 1: "computing again", 2: "computing again"},
]


@pytest.mark.parametrize("deaths", PLANS, ids=str)
def test_each_row_counts_once_whoever_dies(deaths: dict[int, str]) -> None:
    named = {str(rank): how for rank, how in deaths.items()}
    job = run(sum_rows, ranks=4, batches=BATCHES, rounds=ROUNDS, deaths=named)
    assert job.ended == {0, 1, 2, 3} - set(deaths), job.output
    each = [float(sum(range(lo + 1, hi + 1))) for lo, hi in BATCHES]
    assert all(job["found"][rank] == [each] * ROUNDS for rank in job.ended)


def sum_members(leads: bool) -> None:
    """Rank 1 dies inside of the second sum, the leader where it *leads*."""
    from matex.exchange import sums

    communicator = begin()
    rank = communicator.world.rank
    found: list[Any] = []
    victim = 0 if leads else 1
    for number in range(3):
        if number == 1 and rank == victim:
            once_in_call(lambda: end_by("SIGKILL"))
        elif number == 1:  # the others come when it is inside, and gone
            wait_for(lambda: seen("dying", victim))

        def prepare(vector: np.ndarray) -> None:
            vector[1] = 7.0 if communicator.world.is_leader else 0.0

        vector = np.array([2.0**rank, 0.0, 1.0])
        found.append(sums.over_members(communicator, vector, prepare=prepare).tolist())
    mark("found", found)
    communicator.leave()


@pytest.mark.parametrize("leads", [True, False])
def test_members_count_as_often_as_they_say(leads: bool) -> None:
    job = run(sum_members, ranks=3, leads=leads)
    dead = 0 if leads else 1
    assert job.ended == {0, 1, 2} - {dead}, job.output
    left = [float(sum(2**rank for rank in job.ended)), 7.0, 2.0]
    for first, second, third in job["found"].values():
        assert first == [7.0, 7.0, 3.0] and third == left
        assert second in (first, left)  # what the dead one had sent may have arrived
    assert len({str(sums) for sums in job["found"].values()}) == 1
