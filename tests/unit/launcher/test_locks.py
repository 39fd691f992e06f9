"""One run to a directory."""

from __future__ import annotations

import os
import re
import select
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ci.patience import patience
from matex.config import Config
from matex.errors import InputError
from matex.launcher.locks import LOCK, owned
from matex.launcher.preparing import all_owned

ROOT = Path(__file__).resolve().parents[3]
HOLD = """
import sys
from pathlib import Path
from matex.launcher.locks import owned
with owned(Path(sys.argv[1]), "--report"):
    print("held", flush=True)
    input()
"""
# A launcher, whose mpiexec executes the second argument, and says when it has started its ranks:
# no programs, because where one is just being executed, its environment cannot be seen.
LAUNCH = """
import os, sys
from pathlib import Path
from matex.launcher.job import Job
from matex.launcher.locks import owned
from matex.launcher.mpiexec import Mpiexec, MpiexecKind
with owned(Path(sys.argv[1]), "--report") as file:
    ready = Path(sys.argv[1], "ready")
    os.mkfifo(ready)
    command = ["sh", "-c", sys.argv[2].format(file=file, ready=ready)]
    Job(Mpiexec("sh", MpiexecKind.OTHER), command, os.environ, quiet=True, files=[file])
    ready.read_text()
    print("held", flush=True)
    input()
"""
INHERITED = """
import os, sys
from pathlib import Path
from matex.launcher.locks import leave_inherited
leave_inherited()
print([name for name in os.listdir("/proc/self/fd") if Path("/proc/self/fd", name).exists()])
"""


def holder(directory: Path, *words: str, program: str = HOLD) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", program, directory, *words],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_a_second_run_is_told_who_was_first(tmp_path: Path) -> None:
    first = holder(tmp_path / "new" / "saved")
    with (
        pytest.raises(InputError, match=f"process {first.pid} on .* has used since 20"),
        owned(tmp_path / "new" / "saved", "--checkpoint"),
    ):
        pytest.fail("two runs hold one directory")
    first.communicate("\n", timeout=patience(60))
    with owned(tmp_path / "new" / "saved", "--checkpoint"):
        assert (tmp_path / "new" / "saved" / LOCK).exists()
    assert [*(tmp_path / "new" / "saved").iterdir()] == []


def test_a_killed_run_holds_nothing(tmp_path: Path) -> None:
    first = holder(tmp_path)
    first.send_signal(signal.SIGKILL)
    first.communicate(timeout=patience(60))
    assert (tmp_path / LOCK).exists()
    with owned(tmp_path, "--report"):
        pass
    assert not (tmp_path / LOCK).exists()


def test_the_end_of_a_run_leaves_the_lock_of_the_next_one(tmp_path: Path) -> None:
    report = tmp_path / "report"
    with owned(report, "--report"):
        shutil.rmtree(report)  # by the user, for a second run
        second = holder(report)
    with pytest.raises(InputError, match=f"process {second.pid} on "), owned(report, "--report"):
        pytest.fail("two runs hold one directory")
    second.communicate("\n", timeout=patience(60))
    assert [*report.iterdir()] == []


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (
            "(echo > {ready}; read end < {ready}) {file}>&- & wait",
            "its ranks still run, below process {0}: wait for their end, make them save and leave "
            "by kill -USR1 {0}",
        ),
        (
            "echo > {ready}; read end < {ready}",
            "its mpiexec, process {}, has not ended with the ranks: kill -KILL",
        ),
    ],
)
def test_a_directory_is_the_run_s_until_its_mpiexec_has_ended(
    command: str, told: str, tmp_path: Path
) -> None:
    launcher = holder(tmp_path, command, program=LAUNCH)
    launcher.send_signal(signal.SIGKILL)
    launcher.communicate(timeout=patience(60))
    with pytest.raises(InputError) as refused, owned(tmp_path, "--report"):
        pytest.fail("two runs hold one directory")
    line = str(refused.value)
    mpiexec = max(map(int, re.findall(r"(?:process|KILL) (\d+)", line)))
    ended = os.pidfd_open(mpiexec)
    try:
        os.killpg(mpiexec, signal.SIGKILL)
        assert f"{tmp_path}, which the run of process {launcher.pid} on " in line
        assert "that process is gone" in line
        assert told.format(mpiexec) in line
        assert "\n" not in line
        assert select.select([ended], [], [], patience(60))[0]
    finally:
        os.close(ended)
    with owned(tmp_path, "--report"):
        pass


def test_a_rank_keeps_no_lock_that_it_inherited(tmp_path: Path) -> None:
    with owned(tmp_path, "--report") as file:
        assert file is not None
        said = subprocess.run(
            [sys.executable, "-c", INHERITED],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            pass_fds=[file], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True,
        )  # fmt: skip
    assert said.stdout == "['0', '1', '2']\n"


def test_a_refused_run_leaves_no_directory_that_it_made(tmp_path: Path) -> None:
    first = holder(tmp_path / "saved")
    (tmp_path / "old").mkdir()
    for report in (tmp_path / "new" / "report", tmp_path / "old"):
        config = Config(report=report, checkpoint=tmp_path / "saved")
        with pytest.raises(InputError, match="no other run uses"), all_owned(config):
            pytest.fail("two runs hold one directory")
    first.communicate("\n", timeout=patience(60))
    assert {path.name for path in tmp_path.iterdir()} == {"saved", "old"}
    with pytest.raises(InputError, match="later"), all_owned(config):
        raise InputError("of something found later")
    with all_owned(Config(report=tmp_path / "kept")):
        pass
    assert {path.name for path in tmp_path.iterdir()} == {"saved", "old", "kept"}


@pytest.mark.parametrize("place", ["file", "file/saved"])
def test_a_file_in_its_place_is_refused(place: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(InputError, match=r"--checkpoint must be a directory. Received: .*file"),
        owned(tmp_path / place, "--checkpoint"),
    ):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
