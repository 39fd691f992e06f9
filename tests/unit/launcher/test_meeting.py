"""Ranks that end before they have met are missed; none that is alive, or that ends later, is."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ci.patience import patience
from matex.launcher.meeting import GRACE_S, UNSEEN_S, Meeting
from matex.launcher.rank_processes import is_gone, ranks_below
from matex.records.starting_file import STARTING, announce, are_starting, end_start
from tests.unit.launcher.test_patience import Clock


class Ranks:
    """Processes that wait for a line, as ranks wait for each other."""

    def __init__(self, number: int) -> None:
        waiting = [sys.executable, "-c", "input()"]
        self.processes = [subprocess.Popen(waiting, stdin=subprocess.PIPE) for _ in range(number)]
        self.seen = {rank: process.pid for rank, process in enumerate(self.processes)}

    def kill(self, rank: int) -> None:
        self.processes[rank].kill()
        self.processes[rank].wait(patience(10))

    def end(self) -> None:
        for process in self.processes:
            process.kill()
            process.communicate(timeout=patience(10))


@pytest.fixture
def ranks() -> Iterator[Ranks]:
    started = Ranks(3)
    yield started
    started.end()


def test_a_rank_that_ended_is_missed_when_the_others_still_have_not_met(
    tmp_path: Path, ranks: Ranks
) -> None:
    clock = Clock()
    announce(tmp_path)
    meeting = Meeting(tmp_path, 3, lambda: ranks.seen, clock)
    for _ in range(2):
        assert meeting.missed() == ""
        clock.now += 10_000  # ranks that are alive may take as long as they want
    ranks.kill(1)
    assert meeting.missed() == ""
    clock.now += GRACE_S
    said = meeting.missed()
    assert said.startswith(f"rank 1 (process {ranks.seen[1]}) ended before the ranks had met")


def test_ranks_that_have_met_are_ulfm_s(tmp_path: Path, ranks: Ranks) -> None:
    clock = Clock()
    announce(tmp_path)
    meeting = Meeting(tmp_path, 3, lambda: ranks.seen, clock)
    assert meeting.missed() == ""
    ranks.kill(1)
    assert meeting.missed() == ""
    end_start(tmp_path)  # all were in MPI_Init when it died
    clock.now += GRACE_S
    assert meeting.missed() == ""
    announce(tmp_path)
    assert meeting.missed() == ""


def test_a_rank_that_ended_before_it_was_seen_is_missed_later(tmp_path: Path, ranks: Ranks) -> None:
    clock = Clock()
    announce(tmp_path)
    seen: dict[int, int] = {}
    meeting = Meeting(tmp_path, 3, lambda: seen, clock)
    clock.now += 10_000  # mpiexec has not started any
    assert meeting.missed() == ""
    seen |= {rank: ranks.seen[rank] for rank in (0, 2)}
    assert meeting.missed() == ""
    clock.now += UNSEEN_S
    assert meeting.missed().startswith("rank 1 ended before the ranks had met")


def test_nobody_is_missed_where_the_start_was_not_announced(tmp_path: Path, ranks: Ranks) -> None:
    clock = Clock()
    meeting = Meeting(tmp_path, 3, lambda: ranks.seen, clock)
    ranks.kill(0)
    for _ in range(2):
        assert meeting.missed() == ""
        clock.now += UNSEEN_S


def test_a_directory_out_of_reach_says_that_ranks_have_met(tmp_path: Path) -> None:
    lost = tmp_path / ("x" * 300)
    announce(lost)
    assert not are_starting(lost)
    end_start(lost)
    (tmp_path / STARTING).mkdir()  # removing it is another error
    end_start(tmp_path)


STARTER = """
import os, subprocess, sys
def rank(number):
    return subprocess.Popen(
        [sys.executable, "-c", "import subprocess, sys; print(0, flush=True); "
         "subprocess.run([sys.executable, '-c', 'input()'])"],
        env={**os.environ, "PMIX_RANK": str(number)}, stdout=subprocess.PIPE,
    )
ranks = [rank(number) for number in range(2)]
for process in ranks:
    process.stdout.readline()
print(*(process.pid for process in ranks), flush=True)
for process in ranks:
    process.wait()
"""


def test_ranks_are_the_first_of_their_rank_below_a_process() -> None:
    waiting = subprocess.Popen(
        [sys.executable, "-c", STARTER],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert waiting.stdout is not None
    first, second = map(int, waiting.stdout.readline().split())
    assert ranks_below(waiting.pid) == {0: first, 1: second}
    assert not is_gone(first)
    waiting.communicate(timeout=patience(10))
    assert ranks_below(waiting.pid) == {}
    assert is_gone(waiting.pid)
