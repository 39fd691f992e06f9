"""A process that is to end in error ends, whatever it meets on the way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import ft
from ci.patience import patience

ROOT = Path(ft.__file__).parents[1]

PROGRAM = """
import os, sys, threading
import ft
from ft import process_end

process_end._LAST_WORDS_S = 0.5

def broken(reason):
    print("first", flush=True)
    raise RuntimeError("reentrant call inside a buffered writer")

def stuck(reason):
    threading.Event().wait()

def hang():
    dog = ft.Watchdog(timeout_s=0.2, say=say)
    dog.start()
    with dog.working():
        threading.Event().wait()

def end():
    fail = ft.fail_stop if how == "at once" else lambda reason: os._exit(0)
    fail("asked for")

how, callback, say = sys.argv[1], eval(sys.argv[2]), eval(sys.argv[3])
ft.on_fail_stop(callback)
ft.on_fail_stop(lambda reason: print("second", flush=True))
ft.shield(lambda: None)
hang() if how == "watchdog" else end()
"""


def ended(how: str, callback: str, say: str = "print") -> tuple[int, str]:
    """Status and output of a program whose *callback* or *say* prevents others from their work."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, how, callback, say], env={**os.environ, "PMIX_RANK": "0"},
        cwd=ROOT, capture_output=True, text=True, timeout=patience(20), check=False,
    )  # fmt: skip
    return done.returncode, done.stdout


@pytest.mark.parametrize("how", ["watchdog", "at once"])
def test_an_error_on_the_way_does_not_prevent_the_end(how: str) -> None:
    status, said = ended(how, "broken")
    assert status == -signal.SIGKILL
    assert said.endswith("first\nsecond\n")


@pytest.mark.parametrize("how", ["watchdog", "at once"])
def test_a_call_that_waits_for_ever_does_not_prevent_the_end(how: str) -> None:
    status, said = ended(how, "stuck")
    assert status == -signal.SIGKILL
    assert "second" not in said


@pytest.mark.parametrize("say", ["broken", "stuck"])
def test_nor_does_the_line_that_says_why(say: str) -> None:
    assert ended("watchdog", "print", say)[0] == -signal.SIGKILL


@pytest.mark.parametrize("callback", ["broken", "stuck"])
def test_nor_do_they_prevent_an_exit(callback: str) -> None:
    assert ended("os._exit(0)", callback)[0] == 0
