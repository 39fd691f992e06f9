"""A stopped process is recognised, and a process without progress ends itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

import ft
from ci.patience import patience
from ft.processes import started_at
from ft.watchdog import Watchdog, is_stopped
from ft.world import Member

ROOT = Path(ft.__file__).parents[1]


def test_a_stopped_process_is_recognised_and_a_running_or_dead_one_is_not() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert not is_stopped(child.pid)
        os.kill(child.pid, signal.SIGSTOP)
        os.waitpid(child.pid, os.WUNTRACED)
        assert is_stopped(child.pid)
        os.kill(child.pid, signal.SIGCONT)
        os.waitpid(child.pid, os.WCONTINUED)
        assert not is_stopped(child.pid)
    finally:
        child.kill()
        child.communicate()
    assert not is_stopped(child.pid)


@pytest.mark.parametrize("timeout_s", [0, -1, float("nan")])
def test_a_time_out_must_be_positive(timeout_s: float) -> None:
    with pytest.raises(ft.UsageError, match=r"timeout_s must be above 0\. Received: timeout_s="):
        Watchdog(timeout_s=timeout_s)


PROGRAM = """
import os, signal, sys, threading, time
import ft

def wait(seconds):
    threading.Event().wait(seconds)

def compiled(code):
    exec(compile(code, "some/compiler.py", "exec"))

ft.on_fail_stop(lambda reason: print("died:", reason, flush=True))
dog = ft.Watchdog(
    timeout_s=30 if "woken" in sys.argv[1] else 0.4, stopped_after_s=0.5,
    compilers=("/compiler.py",), may_be_given_up=lambda: "on one host" not in sys.argv[1],
)
dog.start()
started = time.monotonic()
if sys.argv[1] == "stuck":
    with dog.working():
        wait(30)
elif sys.argv[1] == "waiting":
    with dog.waiting():
        wait(30)
elif sys.argv[1] == "busy while it waits":
    with dog.waiting():
        wait(0.8)
        with dog.busy():
            wait(30)
elif sys.argv[1] == "in a part that must be short":
    with dog.working(), dog.working(on=False), dog.working(timeout_s=0.2):
        wait(30)
elif sys.argv[1] in ("woken", "woken on one host"):
    dog.end_if_woken()  # nothing yet
    os.kill(os.getpid(), signal.SIGSTOP)
    dog.end_if_woken()
elif sys.argv[1] == "woken together":
    os.kill(os.getpid(), signal.SIGSTOP)
    with dog.waiting():
        wait(0.3)
    dog.end_if_woken()
elif sys.argv[1] == "stopped at work":
    with dog.working():
        os.kill(os.getpid(), signal.SIGSTOP)
        wait(0.2)
elif sys.argv[1] == "getting on":
    with dog.working():
        while time.monotonic() < started + 1.5:
            dog.progress()
elif sys.argv[1] == "with nobody waiting":
    wait(1.5)
elif sys.argv[1] == "allowed to be long":
    with dog.working(), dog.working(on=False):
        wait(1.5)
elif sys.argv[1] == "compiling":
    with dog.working(timeout_s=1.0):
        compiled("wait(1.4)")
elif sys.argv[1] == "compiling for ever":
    with dog.working():
        compiled("wait(30)")
elif sys.argv[1] == "not watched":
    with dog.working():
        dog.stop()
        wait(1.5)
print("alive", flush=True)
"""


def watched(what: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, what], env={**os.environ, "PMIX_RANK": "0"},
        cwd=ROOT, capture_output=True, text=True, timeout=patience(60), check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("stuck", "made no progress"),
        ("waiting", "waited in a collective"),
        ("busy while it waits", "made no progress"),
        ("in a part that must be short", "made no progress"),
        ("compiling for ever", "made no progress"),
    ],
)
def test_without_progress_the_process_ends_itself(what: str, said: str) -> None:
    done = watched(what)
    assert done.returncode == -signal.SIGKILL
    assert done.stdout.startswith(f"died: {said} for ")
    assert said in done.stderr
    assert "ending this rank" in done.stderr


def test_it_says_where_it_is_stuck() -> None:
    assert ", in threading.py:" in watched("stuck").stdout


def stopped_and_woken(what: str) -> tuple[int, str]:
    """Status and output of a program that is stopped for a second."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, what], env={**os.environ, "PMIX_RANK": "0"},
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    try:
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        time.sleep(1)  # this long is what is tested
        os.kill(process.pid, signal.SIGCONT)
        out, _ = process.communicate(timeout=patience(30))
        return process.returncode, out
    finally:
        process.kill()
        process.communicate()


def test_a_woken_process_that_meets_a_failure_ends_itself() -> None:
    status, said = stopped_and_woken("woken")
    assert status == -signal.SIGKILL
    assert said.startswith("died: was stopped for 1 s, and the others have gone on")


def test_one_that_was_stopped_at_work_has_its_whole_time() -> None:
    """A virtual machine that stands still does that to all ranks."""
    assert stopped_and_woken("stopped at work") == (0, "alive\n")


def test_where_no_living_rank_is_given_up_a_woken_one_goes_on() -> None:
    assert stopped_and_woken("woken on one host") == (0, "alive\n")


def test_one_that_was_stopped_with_all_others_lives() -> None:
    assert stopped_and_woken("woken together") == (0, "alive\n")


@pytest.mark.parametrize(
    "what", ["getting on", "with nobody waiting", "allowed to be long", "compiling", "not watched"]
)
def test_the_watchdog_lets_the_process_live(what: str) -> None:
    done = watched(what)
    assert (done.returncode, done.stdout) == (0, "alive\n")


@pytest.mark.parametrize("whose", ["its own", "another's", "in another space"])
def test_only_the_very_process_of_a_neighbour_is_ended(whose: str) -> None:
    """A spare that has died stays in reserve, and its process id may become another program's."""
    other = subprocess.Popen(["sleep", "100"])
    os.kill(other.pid, signal.SIGSTOP)
    os.waitpid(other.pid, os.WUNTRACED)
    member = replace(Member.here(5), pid=other.pid, started=started_at(other.pid))
    if whose == "another's":
        member = replace(member, started=member.started - 1)
    elif whose == "in another space":
        member = replace(member, space=member.space + 1)
    said: list[str] = []
    dog = Watchdog(timeout_s=60, stopped_after_s=0.2, neighbours=lambda: [member], say=said.append)
    dog.start()
    try:
        with dog.waiting():
            limit = time.monotonic() + (patience(30) if whose == "its own" else 1)
            while other.poll() is None and time.monotonic() < limit:
                time.sleep(0.02)
        assert (other.poll() is not None) == bool(said) == (whose == "its own")
    finally:
        dog.stop()
        other.kill()
        other.wait()


def test_a_process_that_may_not_be_ended_ends_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(pid: int, number: int) -> None:
        raise PermissionError

    member = Member.here(5)
    said: list[str] = []
    dog = Watchdog(timeout_s=60, stopped_after_s=0.1, neighbours=lambda: [member], say=said.append)
    monkeypatch.setattr("ft.watchdog.is_stopped", lambda pid: True)
    monkeypatch.setattr("ft.watchdog.os.kill", refuse)
    dog.start()
    with dog.waiting():
        limit = time.monotonic() + patience(30)
        while len(said) < 2 and time.monotonic() < limit:
            time.sleep(0.02)
    dog.stop()
    assert len(said) >= 2
