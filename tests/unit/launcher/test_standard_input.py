"""The launcher's standard input, as processes beside it read it."""

from __future__ import annotations

import contextlib
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

LAUNCHER = """
import sys
from pathlib import Path
from matex.launcher.standard_input import served_input

with served_input(Path(sys.argv[1])) as address:
    print(address, flush=True)
    Path(sys.argv[2]).read_text()
"""

RANK = """
import sys
from matex.process import standard_input

standard_input.install(sys.argv[1])
if sys.argv[2] == "one line":
    print(sys.stdin.isatty(), input(), flush=True)
else:
    print(sys.stdin.isatty(), [line.strip() for line in sys.stdin], repr(sys.stdin.read()))
"""


class Launched:
    """A launcher that has *stdin*, until `close`."""

    def __init__(self, folder: Path, stdin: int) -> None:
        self._until = folder / "until"
        os.mkfifo(self._until)
        self._process = subprocess.Popen(
            [sys.executable, "-c", LAUNCHER, folder, self._until],
            stdin=stdin, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._process.stdout is not None
        self.address = self._process.stdout.readline().strip()

    def rank(self, how: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", RANK, self.address, how],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )  # fmt: skip

    def close(self) -> None:
        self._until.write_text("")
        assert self._process.wait() == 0


def test_each_rank_reads_all_from_the_beginning(tmp_path: Path) -> None:
    ours, theirs = os.pipe()
    os.write(theirs, b"5\n6\n")
    with contextlib.closing(Launched(tmp_path, ours)) as launched:
        assert launched.rank("one line").stdout == "False 5\n"
        os.close(theirs)
        for _ in range(2):
            assert launched.rank("all").stdout == "False ['5', '6'] ''\n"
    os.close(ours)
    refused = launched.rank("one line")
    assert "by ranks on the host of matex run" in refused.stderr


def test_nothing_is_taken_that_no_rank_asks_for(tmp_path: Path) -> None:
    """An endless source, of which the first line is wanted, and a shell's loop."""
    endless = subprocess.Popen(["yes"], stdout=subprocess.PIPE)
    assert endless.stdout is not None
    with contextlib.closing(Launched(tmp_path, endless.stdout.fileno())) as launched:
        assert launched.rank("one line").stdout == "False y\n"
        endless.kill()
        endless.wait()
    endless.stdout.close()
    ours, theirs = os.pipe()
    os.write(theirs, b"left\n")
    (tmp_path / "until").unlink()
    Launched(tmp_path, ours).close()
    assert os.read(ours, 9) == b"left\n"
    os.close(ours)
    os.close(theirs)


def test_what_is_typed_comes_from_a_terminal(tmp_path: Path) -> None:
    mine, theirs = pty.openpty()
    with contextlib.closing(Launched(tmp_path, theirs)) as launched:
        os.write(mine, b"typed\n")
        assert launched.rank("one line").stdout == "True typed\n"
    os.close(mine)
    os.close(theirs)


@pytest.mark.parametrize("closed", [False, True])
def test_there_may_be_nothing_to_read(closed: bool, tmp_path: Path) -> None:
    words = [sys.executable, "-c", LAUNCHER, tmp_path, os.devnull]
    with Path(os.devnull).open() as null:
        done = subprocess.run(
            words, stdin=null, stdout=subprocess.PIPE, text=True, check=True,
            preexec_fn=(lambda: os.close(0)) if closed else None,
        )  # fmt: skip
    assert done.stdout == "None\n"
