"""Under the shield every abnormal end of a process is a SIGKILL, and a normal one says goodbye."""

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

PREAMBLE = """
import atexit, os, subprocess, sys, threading
import ft

def farewell():
    print("farewell", flush=True)

def died(reason):
    print("died:", reason, flush=True)

ft.on_fail_stop(died)
ft.shield(farewell)
"""


def end(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PREAMBLE + program], env={**os.environ, **environment},
        cwd=ROOT, capture_output=True, text=True, timeout=patience(60), check=False,
    )  # fmt: skip


NORMAL = {
    "the end of the program": "",
    "sys.exit()": "sys.exit()",
    "sys.exit(0)": "sys.exit(0)",
    "sys.exit(256)": "sys.exit(256)",
    "a shielded block that ends": "with ft.shielded():\n    pass",
    "a shielded SystemExit(0)": "with ft.shielded():\n    raise SystemExit(0)",
    "an exception that was caught": "try:\n    1 / 0\nexcept ZeroDivisionError:\n    pass",
    "SystemExit in a thread": """
def quit():
    raise SystemExit(1)
thread = threading.Thread(target=quit)
thread.start()
thread.join()
""",
    "a second shield": "ft.shield(farewell)",
    "a harmless exception in a thread": """
ft.shield(farewell, is_harmless=lambda error: str(error) == "no matter")
def fail():
    sys.stderr = open(os.devnull, "w")
    raise ValueError("no matter")
thread = threading.Thread(target=fail)
thread.start()
thread.join()
sys.stderr = sys.__stderr__
""",
}


@pytest.mark.parametrize("how", NORMAL)
def test_a_normal_end_says_goodbye_once(how: str) -> None:
    done = end(NORMAL[how])
    assert (done.returncode, done.stdout, done.stderr) == (0, "farewell\n", "")


ABNORMAL = {
    "sys.exit(1)": ("sys.exit(1)", "the program ended with status 1", ""),
    "sys.exit(message)": ("sys.exit('no data')", "the program ended with status 1", "no data"),
    "an exception": ("raise ValueError('two\\nlines')", "ValueError: two", "Traceback"),
    "an exception without words": ("raise KeyError", "KeyError", "Traceback"),
    "an exception in a thread": (
        "t = threading.Thread(target=lambda: 1 / 0)\nt.start()\nt.join()",
        "ZeroDivisionError: division by zero",
        "Traceback",
    ),
    "Ctrl-C": ("raise KeyboardInterrupt", "KeyboardInterrupt", "Traceback"),
    "a shielded SystemExit(3)": (
        "with ft.shielded():\n    raise SystemExit(3)",
        "the program ended with status 3",
        "",
    ),
    "a shielded SystemExit(message)": (
        "with ft.shielded():\n    raise SystemExit('no data')",
        "no data",
        "no data",
    ),
    "a shielded exception": (
        "with ft.shielded():\n    raise OSError('disk')",
        "OSError: disk",
        "Traceback",
    ),
    "fail-stop": ("print('unflushed', end='')\nft.fail_stop('asked for')", "asked for", ""),
    "os._exit(1)": ("os._exit(1)", "os._exit with status 1", ""),
}


@pytest.mark.parametrize("how", ABNORMAL)
def test_an_abnormal_end_is_a_kill_with_a_reason(how: str) -> None:
    program, reason, said = ABNORMAL[how]
    done = end(program, PMIX_RANK="0")  # as a launcher's processes have it
    assert done.returncode == -signal.SIGKILL
    assert "farewell" not in done.stdout
    assert f"died: {reason}\n" in done.stdout
    assert said in done.stderr


def test_a_quick_end_says_what_it_was() -> None:
    done = end("os._exit(0)", PMIX_RANK="0")
    assert (done.returncode, done.stdout) == (0, "died: os._exit with status 0\n")


@pytest.mark.parametrize(
    "how", ["sys.exit(1)", "an exception", "a shielded SystemExit(3)", "a shielded exception"]
)
def test_what_the_program_gave_to_atexit_is_called_first(how: str) -> None:
    done = end("atexit.register(print, 'at exit')\n" + ABNORMAL[how][0], PMIX_RANK="0")
    assert done.returncode == -signal.SIGKILL
    assert done.stdout == f"at exit\ndied: {ABNORMAL[how][1]}\n"


def test_an_exception_may_be_shortened_before_it_is_printed() -> None:
    shorter = "def shorten(error):\n    error.__traceback__ = None\n"
    for how in ("raise ValueError('x')", "with ft.shielded():\n    raise ValueError('x')"):
        done = end(f"{shorter}ft.shield(farewell, before_print=shorten)\n{how}")
        assert done.stderr == "ValueError: x\n"


def test_without_peers_an_abnormal_end_is_an_ordinary_failure() -> None:
    done = end(ABNORMAL["an exception"][0])
    assert done.returncode == 1
    assert "died: ValueError: two\n" in done.stdout


def test_what_was_printed_last_is_not_lost() -> None:
    done = end(ABNORMAL["fail-stop"][0])
    assert "unflushed" in done.stdout


def test_a_farewell_that_fails_ends_the_process() -> None:
    done = end("def bad():\n    raise OSError('no peers')\nft.shield(bad)")
    assert "no peers" in done.stderr


@pytest.mark.parametrize(
    ("ending", "status"),
    [
        ("os._exit(3)", 3),
        ("sys.exit(3)", 3),
        ("raise ValueError", 1),
        ("with ft.shielded():\n        raise ValueError", 1),
        ("with ft.shielded():\n        raise SystemExit(3)", 3),
    ],
)
def test_children_of_a_shielded_process_end_as_they_like(ending: str, status: int) -> None:
    waiting = "print(os.waitpid(pid, 0)[1])"
    done = end(f"pid = os.fork()\nif pid == 0:\n    {ending}\n{waiting}")
    assert done.stdout == f"{status << 8}\nfarewell\n"
    assert done.returncode == 0
