"""The outputs of a rank and of programs that it starts: in its log, and the leader's shown."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import contextlib, io, multiprocessing, os, subprocess, sys
from pathlib import Path
from matex.process import child_output
from matex.records import console

folder, leads = Path(sys.argv[1]), sys.argv[2] == "leads"
console.redirect(folder, 0, lambda: leads)
child_output.install()
print("first")
sys.stdout.reconfigure(errors="replace", line_buffering=True)
sys.stdout.buffer.write(b"bytes\\n")
with contextlib.redirect_stdout(io.StringIO()) as kept:
    assert not console.is_own("stdout")
    print("kept")
    print("of matex", file=console.own("stdout"), flush=True)
assert kept.getvalue() == "kept\\n"
sys.stdout = io.StringIO()
sys.stdout = sys.__stdout__
assert console.is_own("stdout")
print("restored")
subprocess.run(["echo", "program"], check=True)
subprocess.run("echo error >&2", shell=True, check=True, stdout=sys.stdout)
assert os.system("echo shell; exit 3") == 3 << 8
if sys.argv[2:] == ["leads"]:
    spawned = multiprocessing.get_context("spawn").Process(target=print, args=("spawned",))
    spawned.start()
    spawned.join()
before = os.dup(1)
with open(folder / "file.txt", "w") as file:
    os.dup2(file.fileno(), 1)
    print("in the file")
    subprocess.run(["echo", "in the file"], check=True)
os.dup2(before, 1)
io.TextIOWrapper(sys.stdout.buffer, encoding="utf-8").close()
print("last")
"""
LINES = ["first", "bytes", "of matex", "restored", "program", "shell"]


@pytest.mark.parametrize("leads", [True, False])
def test_each_line_comes_once_whoever_prints_it(leads: bool, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, tmp_path, "leads" if leads else "follows"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, (tmp_path / "rank-0000.log").read_text()
    log = (tmp_path / "rank-0000.log").read_text().splitlines()
    assert (tmp_path / "file.txt").read_text().splitlines() == ["in the file"] * 2
    if leads:
        assert done.stdout.splitlines() == [*LINES, "spawned", "last"]
        assert done.stderr == "error\n"
        assert log == ["first", "bytes", "of matex", "restored", "last"]
    else:
        assert (done.stdout, done.stderr) == ("", "")
        assert log == [*LINES[:-1], "error", "shell", "last"]


WITHOUT_A_LOG = """
import gc, sys
from matex.records import console

console.redirect(None, 0, lambda: True)
gc.collect()
print("said")
print("of matex", file=console.own("stdout"), flush=True)
print("error", file=sys.stderr)
"""


def test_the_terminal_stays_open_where_there_is_no_log() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_A_LOG], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("said\nof matex\n", "error\n")


ON_A_TERMINAL = """
import sys
from matex.records import console

console.redirect(None, 0, lambda: True, redirected=sys.argv[1] == "redirected")
print(sys.stdout.isatty(), file=sys.stderr)
"""


@pytest.mark.parametrize(("how", "said"), [("redirected", "False\n"), ("shown", "True\n")])
def test_what_mpiexec_makes_of_a_file_is_no_terminal(how: str, said: str) -> None:
    mine, theirs = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-c", ON_A_TERMINAL, how],
        stdout=theirs, stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    os.close(mine)
    os.close(theirs)
    assert done.stderr == said
