"""Ranks that end before they have met are missed; none that is alive, or that ends later, is."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ci.patience import patience
from matex.config.launcher_address import LauncherAddress
from matex.launcher.arbiter import Arbiter
from matex.launcher.host_names import HostNames
from matex.launcher.hosts import Hosts
from matex.launcher.mpiexec import Mpiexec, MpiexecKind
from matex.launcher.rank_processes import is_gone, ranks_below
from matex.launcher.rendezvous import GRACE_S, Rendezvous
from matex.launcher.starting_ranks import RanksHere
from matex.records.launcher_protocol.starting_connection import StartingConnection
from matex.records.launcher_protocol.starting_file import (
    STARTING,
    announce,
    are_starting,
    end_start,
)
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
    rendezvous = Rendezvous(RanksHere(tmp_path, 3, lambda: ranks.seen), 3, clock)
    for _ in range(2):
        assert rendezvous.missed() == ""
        clock.now += 10_000  # ranks that are alive may take as long as they want
    ranks.kill(1)
    assert rendezvous.missed() == ""
    clock.now += GRACE_S
    said = rendezvous.missed()
    assert said.startswith(f"rank 1 (process {ranks.seen[1]}) ended before the ranks had met")


def test_ranks_that_have_met_are_ulfm_s(tmp_path: Path, ranks: Ranks) -> None:
    clock = Clock()
    announce(tmp_path)
    rendezvous = Rendezvous(RanksHere(tmp_path, 3, lambda: ranks.seen), 3, clock)
    assert rendezvous.missed() == ""
    ranks.kill(1)
    assert rendezvous.missed() == ""
    end_start(tmp_path)  # all were in MPI_Init when it died
    clock.now += GRACE_S
    assert rendezvous.missed() == ""
    announce(tmp_path)
    assert rendezvous.missed() == ""


def test_a_rank_that_ended_before_it_was_seen_is_missed_later(tmp_path: Path, ranks: Ranks) -> None:
    clock = Clock()
    announce(tmp_path)
    seen: dict[int, int] = {}
    rendezvous = Rendezvous(RanksHere(tmp_path, 3, lambda: seen), 3, clock)
    clock.now += 10_000  # mpiexec has not started any
    assert rendezvous.missed() == ""
    seen |= {rank: ranks.seen[rank] for rank in (0, 2)}
    assert rendezvous.missed() == ""
    clock.now += RanksHere.unseen_s
    assert rendezvous.missed().startswith("rank 1 had not started 30 s after the others")


def test_of_many_ranks_some_are_named(tmp_path: Path, ranks: Ranks) -> None:
    clock = Clock()
    announce(tmp_path)
    rendezvous = Rendezvous(RanksHere(tmp_path, 500, lambda: ranks.seen), 500, clock)
    assert rendezvous.missed() == ""
    clock.now += RanksHere.unseen_s
    missed = rendezvous.missed()
    assert ", rank 10 and 489 more had not started 30 s after the others" in missed
    assert len(missed) < 200


def test_nobody_is_missed_where_the_start_was_not_announced(tmp_path: Path, ranks: Ranks) -> None:
    clock = Clock()
    rendezvous = Rendezvous(RanksHere(tmp_path, 3, lambda: ranks.seen), 3, clock)
    ranks.kill(0)
    for _ in range(2):
        assert rendezvous.missed() == ""
        clock.now += RanksHere.unseen_s


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


CONNECTED = """
import sys
from matex.config.launcher_address import LauncherAddress
from matex.records.launcher_protocol.starting_connection import StartingConnection
connection = StartingConnection(LauncherAddress.read(sys.argv[1]), int(sys.argv[2]))
print(flush=True)
sys.stdin.readline()
connection.end()
sys.stdin.readline()
"""


class Connected:
    """Processes that are connected to an arbiter until they have met, each after a line."""

    def __init__(self, number: int) -> None:
        hosts = Hosts(mpiexec=Mpiexec("mpiexec", MpiexecKind.OPEN_MPI), environment={})
        self.arbiter = Arbiter(hosts, HostNames(), lambda: False, started=number)
        self.clock = Clock()
        self.rendezvous = Rendezvous(self.arbiter.starting, number, self.clock)
        command = [sys.executable, "-c", CONNECTED, self.arbiter.setting]
        self.processes = [
            subprocess.Popen(
                [*command, str(rank)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            )
            for rank in range(number)
        ]  # fmt: skip
        until(lambda: len(self.arbiter.starting.seen()) == number)

    def end(self) -> None:
        for process in self.processes:
            process.kill()
            process.communicate(timeout=patience(10))
        self.arbiter.close()


def until(condition: Callable[[], bool]) -> None:
    limit = time.monotonic() + patience(30)
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.01)


@pytest.fixture
def connected() -> Iterator[Connected]:
    started = Connected(2)
    yield started
    started.end()


def test_a_connection_that_ends_is_a_death(connected: Connected) -> None:
    connected.clock.now += 10_000
    assert connected.rendezvous.missed() == ""
    connected.processes[1].kill()
    until(lambda: bool(connected.arbiter.starting.gone()))
    assert connected.rendezvous.missed() == ""
    connected.clock.now += GRACE_S
    host = socket.gethostname()
    named = f"rank 1 (process {connected.processes[1].pid} on {host})"
    assert connected.rendezvous.missed().startswith(f"{named} ended before the ranks had met")


def test_a_rank_that_has_met_others_says_so(connected: Connected) -> None:
    first, second = connected.processes
    second.kill()  # in MPI_Init, which all had entered
    until(lambda: bool(connected.arbiter.starting.gone()))
    assert connected.rendezvous.missed() == ""
    assert first.stdin is not None
    first.stdin.write("\n")
    first.stdin.flush()
    until(lambda: bool(connected.arbiter.starting.gone()) and connected.arbiter.starting.have_met())
    connected.clock.now += GRACE_S
    assert connected.rendezvous.missed() == ""


def test_a_launcher_out_of_reach_is_not_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    StartingConnection(LauncherAddress(("127.0.0.1",), port, "secret"), 0).end()
    assert "starting" not in {thread.name for thread in threading.enumerate()}
