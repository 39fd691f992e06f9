"""The launcher gives leave to one part of a run, over a real socket."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

import ft
from ci.patience import patience
from matex.launcher.arbiter import Arbiter, HostNames, Question, Rulings, probe
from matex.run.launcher_client import LauncherClient

SPACE = Path("/proc/self/ns/pid").stat().st_ino


class Here:
    """Hosts that are all this one, but for those that do not answer."""

    def __init__(self, *, silent: Iterable[str] = ()) -> None:
        self.silent = set(silent)

    def run(self, hosts: Iterable[str], words: Sequence[str], *, within_s: float) -> list[str]:
        done = subprocess.run(words, check=False, timeout=patience(60)).returncode == 0
        return [host for host in hosts if done and host not in self.silent]


def asked(*present: int, unknown: Sequence[int], asks: bool = True) -> Question:
    places = tuple((rank, "b", 1, SPACE) for rank in unknown)
    return Question(asks=asks, here=named(present), unknown=places)


def named(ranks: Iterable[int]) -> tuple[tuple[int, str], ...]:
    return tuple((rank, "a") for rank in ranks)


def test_one_half_is_chosen_and_the_other_is_not() -> None:
    rulings = Rulings()
    assert rulings.rule(asked(2, 3, unknown=[0, 1]), []) == ""
    assert rulings.rule(asked(0, 1, unknown=[2, 3]), []) == "the run goes on with ranks 2, 3"
    assert rulings.rule(asked(3, unknown=[2]), []) == ""  # a part of the chosen one


def test_the_smaller_part_goes_on_only_where_the_others_are_dead() -> None:
    rulings = Rulings()
    refusal = rulings.rule(asked(0, unknown=[1, 2]), [])
    assert refusal == "ranks 1, 2 are more, and are alive or on hosts that do not answer"
    assert rulings.chosen is None
    assert rulings.rule(asked(0, unknown=[1, 2]), [2]) == ""


def test_who_goes_on_without_asking_is_remembered() -> None:
    rulings = Rulings()
    assert rulings.rule(asked(1, 2, unknown=[], asks=False), []) == ""
    assert rulings.rule(asked(0, unknown=[1, 2]), [1, 2]) == "the run goes on with ranks 1, 2"


def test_who_was_alone_with_one_that_went_on_and_died_does_not() -> None:
    """Ranks 2 and 3 had leave; late news part them, 2 goes on and then hears of its own death."""
    rulings = Rulings()
    assert rulings.rule(asked(2, 3, unknown=[0, 1]), []) == ""
    assert rulings.rule(asked(2, unknown=[3]), []) == ""
    assert rulings.rule(asked(3, unknown=[]), []) == "the run goes on with rank 2"


def test_who_was_admitted_by_those_chosen_is_one_of_them() -> None:
    rulings = Rulings()
    assert rulings.rule(asked(0, 1, unknown=[2, 3]), [2, 3]) == ""
    joined = Question(asks=False, here=named([0, 1, 4]), admitted=(4,))
    assert rulings.rule(joined, []) == ""
    assert rulings.rule(asked(4, unknown=[0, 1]), [0, 1]) == ""
    stranger = Question(asks=False, here=named([2, 5]), admitted=(5,))  # by a part that was not
    assert rulings.rule(stranger, []) == "the run goes on with rank 4"


def test_ranks_fill_hosts_in_their_order() -> None:
    names = HostNames({"10.0.0.1": 2, "10.0.0.2": 1})
    hosts = [names.of(rank, host) for rank, host in enumerate(["a", "a", "b", "b", "c"])]
    assert hosts == ["10.0.0.1", "10.0.0.1", "10.0.0.2", "10.0.0.2", "c"]


def test_a_probe_knows_the_living_and_other_spaces() -> None:
    def succeeds(space: int, pid: int) -> bool:
        return (
            subprocess.run(probe(space, [pid]), check=False, timeout=patience(60)).returncode == 0
        )

    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert succeeds(SPACE, ended.pid)
    assert not succeeds(SPACE, os.getpid())
    assert not succeeds(SPACE + 1, ended.pid)


def split(present: Sequence[int], unknown: dict[int, int]) -> ft.NetworkSplit:
    return ft.NetworkSplit(
        present=tuple(ft.Member(rank=rank, host="a", pid=1) for rank in present),
        spread=True,
        unknown=tuple(
            ft.Member(rank=rank, host=f"host{rank}", pid=pid, space=SPACE)
            for rank, pid in unknown.items()
        ),
    )


def test_a_rank_asks_and_the_launcher_asks_the_hosts() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    over = []
    arbiter = Arbiter(Here(silent=["host9"]), HostNames({}), lambda: bool(over))
    try:
        launcher = LauncherClient(arbiter.setting)
        alive = split([0], {1: os.getpid(), 2: ended.pid, 3: os.getpid()})
        assert launcher.decide(alive).refusal.startswith("ranks 1, 3 are more")
        assert launcher.decide(split([0], {8: ended.pid, 9: ended.pid})) == ("", (8,))
        refusal = launcher.decide(split([5], {4: ended.pid})).refusal
        assert refusal == "the run goes on with rank 0"
        over.append(True)
        refusal = launcher.decide(split([0], {})).refusal
        assert refusal == "the run has come to its end without them"
    finally:
        arbiter.close()
    assert launcher.decide(split([0], {1: 1})).refusal == "the launcher does not answer"
    assert launcher.decide(split([0], {})) == ft.Ruling()  # the others are dead


class Together(Here):
    """Hosts none of which answers before all are asked."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self._all_asked = threading.Barrier(count, timeout=patience(30))

    def run(self, hosts: Iterable[str], words: Sequence[str], *, within_s: float) -> list[str]:
        self._all_asked.wait()
        return super().run(hosts, words, within_s=within_s)


def test_all_hosts_are_asked_at_the_same_time() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    arbiter = Arbiter(Together(3), HostNames({}), lambda: False)
    try:
        lost = dict.fromkeys([1, 2, 3], ended.pid)
        assert LauncherClient(arbiter.setting).decide(split([0], lost)) == ("", (1, 2, 3))
    finally:
        arbiter.close()


@pytest.mark.parametrize(
    "line", [b"", b"\n", b"[]\n", b"{}\n", b'{"token": "guessed", "present": [], "asks": false}\n']
)
def test_who_does_not_know_the_password_gets_no_answer(line: bytes) -> None:
    arbiter = Arbiter(Here(), HostNames({}), lambda: False)
    try:
        port = int(arbiter.setting.split("/")[1])
        with socket.create_connection(("127.0.0.1", port), 10) as connection:
            connection.settimeout(30)
            connection.sendall(line)
            connection.shutdown(socket.SHUT_WR)
            assert connection.recv(100) == b""
    finally:
        arbiter.close()


def test_a_question_that_is_none() -> None:
    good = json.loads(
        '{"asks": true, "present": [[1, "b"]], "unknown": [[0, "a", 5, 6]], "admitted": []}'
    )
    assert Question.read(good) == Question(asks=True, here=((1, "b"),), unknown=((0, "a", 5, 6),))
    for name, value in (("present", 5), ("unknown", [[1, 2]]), ("present", ["x"])):
        with pytest.raises((TypeError, ValueError)):
            Question.read({**good, name: value})
