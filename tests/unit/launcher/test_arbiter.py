"""The launcher gives leave to one part of a run, over a real socket."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import pytest

import ft
from ci.patience import patience
from matex.launcher.arbiter import Arbiter, Lost, Question, Rulings
from matex.launcher.host_names import HostNames
from matex.launcher.hosts import Hosts
from matex.launcher.mpiexec import Mpiexec
from matex.run.launcher_client import LauncherClient

ME = ft.Member.here(0)
SPACE = ME.space


class Machines:
    """Hosts that are all this one, but for what they say of themselves, and silent ones.

    Args:
        own: own name of each host, by the name of the list; that name by default.
        silent: names of hosts that do not answer.
    """

    def __init__(self, *, own: dict[str, str] | None = None, silent: Iterable[str] = ()) -> None:
        self.own = own or {}
        self.silent = set(silent)
        self.asked: list[str] = []

    def ask(self, hosts: Iterable[str], words: Sequence[str], *, within_s: float) -> dict[str, str]:
        self.asked += hosts
        found = {}
        for name in hosts:
            said = ["sh", "-c", f"uname() {{ echo {self.own.get(name, name)}; }}; {words[2]}"]
            done = subprocess.run(
                said, check=False, timeout=patience(60), stdout=subprocess.PIPE, text=True
            )
            if done.returncode == 0 and name not in self.silent:
                found[name] = done.stdout
        return found


def asked(*present: int, unknown: Sequence[int], asks: bool = True) -> Question:
    lost = tuple(Lost(rank, "b", "", SPACE, 1) for rank in unknown)
    absent = frozenset(unknown)
    return Question(asks=asks, present=frozenset(present), absent=absent, unknown=lost)


def test_one_half_is_chosen_and_the_other_is_not() -> None:
    rulings = Rulings(4)
    assert rulings.rule(asked(2, 3, unknown=[0, 1]), []) == ""
    assert rulings.rule(asked(0, 1, unknown=[2, 3]), []) == "the run goes on with ranks 2, 3"
    assert rulings.rule(asked(3, unknown=[2]), []) == ""  # a part of the chosen one


def test_the_smaller_part_goes_on_only_where_the_others_are_dead() -> None:
    rulings = Rulings(3)
    refusal = rulings.rule(asked(0, unknown=[1, 2]), [])
    assert refusal == "ranks 1, 2 are more, and are alive or on hosts that do not answer"
    assert rulings.chosen is None
    assert rulings.rule(asked(0, unknown=[1, 2]), [2]) == ""


def test_who_goes_on_without_asking_is_remembered() -> None:
    rulings = Rulings(3)
    assert rulings.rule(asked(1, 2, unknown=[], asks=False), []) == ""
    assert rulings.rule(asked(0, unknown=[1, 2]), [1, 2]) == "the run goes on with ranks 1, 2"


def test_who_was_alone_with_one_that_went_on_and_died_does_not() -> None:
    """Ranks 2 and 3 had leave; late news part them, 2 goes on and then hears of its own death."""
    rulings = Rulings(4)
    assert rulings.rule(asked(2, 3, unknown=[0, 1]), []) == ""
    assert rulings.rule(asked(2, unknown=[3]), []) == ""
    assert rulings.rule(asked(3, unknown=[]), []) == "the run goes on with rank 2"


def test_who_was_admitted_by_those_chosen_is_one_of_them() -> None:
    rulings = Rulings(4)
    assert rulings.rule(asked(0, 1, unknown=[2, 3]), [2, 3]) == ""
    assert rulings.rule(asked(0, 1, 4, unknown=[], asks=False), []) == ""
    assert rulings.rule(asked(4, unknown=[0, 1]), [0, 1]) == ""
    stranger = asked(2, 5, unknown=[], asks=False)  # which a part that was not chosen admitted
    assert rulings.rule(stranger, []) == "the run goes on with rank 4"
    assert rulings.rule(asked(5, unknown=[2]), [2]) == "the run goes on with rank 4"


def test_a_newcomer_of_whom_nobody_told_is_one_of_those_who_admitted_it() -> None:
    """The leader tells once of an admission, and may die at once."""
    rulings = Rulings(4)
    assert rulings.rule(asked(0, 1, 2, unknown=[3], asks=False), []) == ""
    assert rulings.rule(asked(1, 2, 4, unknown=[0]), [0]) == ""
    assert rulings.rule(asked(0, unknown=[1, 2, 4]), []) == "the run goes on with ranks 1, 2, 4"


def test_who_is_lost_with_a_newcomer_of_whom_nobody_told_does_not_shut_it_out() -> None:
    rulings = Rulings(4)
    assert rulings.rule(asked(0, 1, 2, unknown=[3], asks=False), []) == ""
    assert rulings.rule(asked(2, unknown=[0, 1, 4]), []).startswith("ranks 0, 1, 4 are more")
    assert rulings.rule(asked(0, 1, 4, unknown=[2], asks=False), []) == ""


@pytest.mark.parametrize("first", [4, 5])
def test_of_two_parts_of_newcomers_one_goes_on(first: int) -> None:
    rulings = Rulings(4)
    assert rulings.rule(asked(0, 1, 2, unknown=[3], asks=False), []) == ""
    others = [0, 1, 2]
    assert rulings.rule(asked(first, unknown=[*others, 9 - first]), others) == ""
    refusal = rulings.rule(asked(9 - first, unknown=[*others, first]), others)
    assert refusal == f"the run goes on with rank {first}"


def split(present: Sequence[int], unknown: dict[int, int]) -> ft.NetworkSplit:
    """Present ranks on one host, and process ids of unknown ranks, each on its own."""
    return ft.NetworkSplit(
        present=tuple(ft.Member(rank=rank, host="a", pid=1) for rank in present),
        spread=True,
        unknown=tuple(
            replace(ME, rank=rank, host=f"host{rank}", pid=pid) for rank, pid in unknown.items()
        ),
    )


@pytest.fixture
def ended() -> int:
    """Id of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


@contextlib.contextmanager
def arbiter(
    hosts: Machines, names: Iterable[str] = (), over: Sequence[bool] = ()
) -> Iterator[LauncherClient]:
    """A client of an arbiter of four ranks on *hosts*."""
    one = Arbiter(hosts, HostNames(names), lambda: bool(over), started=4)  # type: ignore[arg-type]
    try:
        yield LauncherClient(one.setting)
    finally:
        one.close()


def test_a_rank_asks_and_the_launcher_asks_the_hosts(ended: int) -> None:
    over: list[bool] = []
    with arbiter(Machines(silent=["host9"]), over=over) as launcher:
        alive = split([0], {1: os.getpid(), 2: ended, 3: os.getpid()})
        assert launcher.decide(alive).refusal.startswith("ranks 1, 3 are more")
        assert launcher.decide(split([0], {8: ended, 9: ended})) == ("", (8,))
        refusal = launcher.decide(split([3], {2: ended})).refusal
        assert refusal == "the run goes on with rank 0"
        over.append(True)
        refusal = launcher.decide(split([0], {})).refusal
        assert refusal == "the run has come to its end without them"
    assert launcher.decide(split([0], {1: 1})).refusal == "the launcher does not answer"
    assert launcher.decide(split([0], {})) == ft.Ruling()  # the others are dead


def test_the_launcher_is_told_in_the_order_of_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rank that was admitted would be shut out by the news of the death before."""
    with arbiter(Machines()) as launcher:
        say, told = launcher._say, []

        def slowly(split: ft.NetworkSplit, *, asks: bool) -> ft.Ruling | None:
            if len(split.present) == 2:
                time.sleep(0.3)
            told.append([member.rank for member in split.present])
            return say(split, asks=asks)

        monkeypatch.setattr(launcher, "_say", slowly)
        members = [ft.Member(rank=rank, host=f"host{rank}", pid=1) for rank in range(5)]
        before = ft.World(members=tuple(members[:3]), rank=0)
        after = before.of([0, 1])
        launcher.report(
            ft.Recovery(
                operation=1, finished=False, lost=before.members[2:], before=before, after=after,
                detect_time_s=1.0, repaired_time_s=1.0,
            )
        )  # fmt: skip
        launcher.admitted(after.of([0, 1], [4], members[4:]))
        assert launcher._reporting is not None
        launcher._reporting.join(patience(30))
        assert told == [[0, 1], [0, 1, 4]]
        assert say(split([4], {}), asks=True) == ft.Ruling()


def test_no_other_machine_answers_for_one_that_is_silent(ended: int) -> None:
    """mpiexec puts its own host first: here rank 1 is on the list's first host, not its second."""
    own = {"10.0.0.1": "host1", "10.0.0.2": "host0"}
    for silent, proved in (("10.0.0.1", ()), ("10.0.0.2", (1,))):
        with arbiter(Machines(own=own, silent=[silent]), own) as launcher:
            assert launcher.decide(split([0], {1: ended})).ended == proved


@pytest.mark.parametrize("field", ["host", "boot", "space"])
def test_a_machine_that_is_another_proves_nothing(field: str, ended: int) -> None:
    """An address may lead to another machine, or to the same one after it was started again."""
    other = {"host": "host8", "boot": "bea76180", "space": SPACE + 1}[field]
    lost = replace(ME, **{"rank": 1, "host": "host1", "pid": ended, field: other})
    with arbiter(Machines(), ["host1"]) as launcher:
        assert launcher.decide(replace(split([0], {}), unknown=(lost,))).ended == ()
        assert launcher.decide(split([0], {1: ended})).ended == (1,)


def test_a_host_that_said_who_it_is_is_asked_by_its_name_from_then_on(ended: int) -> None:
    hosts = Machines(own={"x": "host1", "y": "host2"})
    with arbiter(hosts, ["x", "y"]) as launcher:
        for names in (["x", "y"], ["x"]):
            hosts.asked.clear()
            assert launcher.decide(split([0], {1: ended})).ended == (1,)
            assert hosts.asked == names


def test_all_hosts_are_asked_with_one_question(ended: int) -> None:
    """They answer in the time in which the slowest one does."""
    hosts = Machines()
    with arbiter(hosts) as launcher:
        lost = dict.fromkeys([1, 2, 3], ended)
        assert launcher.decide(split([0], lost)) == ("", (1, 2, 3))
    assert hosts.asked == ["host1", "host2", "host3"]


@pytest.mark.parametrize(
    "line", [b"", b"\n", b"[]\n", b"{}\n", b'{"token": "guessed", "present": [], "asks": false}\n']
)
def test_who_does_not_know_the_password_gets_no_answer(line: bytes) -> None:
    hosts = Hosts(mpiexec=Mpiexec("mpiexec"), environment={})
    one = Arbiter(hosts, HostNames(), lambda: False, started=1)
    try:
        port = int(one.setting.split("/")[1])
        with socket.create_connection(("127.0.0.1", port), 10) as connection:
            connection.settimeout(30)
            connection.sendall(line)
            connection.shutdown(socket.SHUT_WR)
            assert connection.recv(100) == b""
    finally:
        one.close()


def test_a_question_that_is_none() -> None:
    good = json.loads(
        '{"asks": true, "present": [1], "absent": [0], "unknown": [[0, "a", "x", 6, 5]]}'
    )
    assert Question.read(good) == Question(
        asks=True,
        present=frozenset({1}),
        absent=frozenset({0}),
        unknown=(Lost(rank=0, host="a", boot="x", space=6, pid=5),),
    )
    for name, value in (("present", 5), ("unknown", [[1, 2]]), ("absent", ["x"])):
        with pytest.raises((TypeError, ValueError)):
            Question.read({**good, name: value})
