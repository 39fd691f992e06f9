"""Cases of cut networks: what is read of them, and what is left when they are ended."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from ci.jobs import environment
from ci.network.emulated import ended_tidily
from ci.network.partitions import judge, workers
from tests.ci.test_partition_observer import WHOLE, step

BEGIN_S, END_S = 60.0, 60.0


@pytest.fixture
def left(tmp_path: Path) -> Path:
    """The files that a right run leaves."""
    for name in ("steps", "report"):
        (tmp_path / name).mkdir()
    (tmp_path / "log").write_text("done\n")
    (tmp_path / "steps" / "0.jsonl").write_text(json.dumps(step(1, 0, 0, 1)) + "\n")
    (tmp_path / "report" / "summary.json").write_text(json.dumps(WHOLE))
    (tmp_path / "report" / "events.jsonl").write_text("")
    return tmp_path


def judged(folder: Path) -> list[str]:
    return judge(folder, status=0, cut_at=0.5, ended_at=1.5)


def test_a_right_run_leaves_one_line(left: Path) -> None:
    (line,) = judged(left)
    assert line.startswith("  status 0, finished") and line.endswith("done")


@pytest.mark.parametrize(
    "name", ["report/events.jsonl", "report/summary.json", "steps/0.jsonl", "log"]
)
def test_a_file_that_cannot_be_read_is_a_finding(left: Path, name: str) -> None:
    (left / name).unlink()
    (left / name).mkdir()
    *wrong, line = judged(left)
    assert [problem for problem in wrong if "cannot be read: [Errno 21]" in problem]
    assert line.startswith("  status 0")


def test_a_process_that_waits_for_a_case_is_ended_by_the_system() -> None:
    """A handler would come to nothing where the signal arrives right before the wait."""
    with workers(1) as pool:
        assert pool.apply(signal.getsignal, (signal.SIGTERM,)) is signal.SIG_DFL
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit), ended_tidily():
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_case_that_is_told_to_end_again_and_again_leaves_nothing(tmp_path: Path) -> None:
    """The signals are those of `timeout`, to the whole group, and of the pool, to its processes."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces need root and the command ip")
    words = ("--hosts", "2", "--slots", "1", "--cut", "one", "--for", "0")
    with subprocess.Popen(
        [sys.executable, "-m", "ci.network.partitions", *words],
        env=environment(TMPDIR=str(tmp_path)),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        watched = psutil.Process(process.pid)
        try:
            began = time.monotonic()
            while not list(tmp_path.glob("partition-*/log")):
                if process.poll() is not None:
                    pytest.skip("no such network can be made here")
                assert time.monotonic() < began + BEGIN_S
                time.sleep(0.05)
            children = watched.children()
            assert children
            began = time.monotonic()
            while process.poll() is None:
                for one in (watched, *children):
                    with contextlib.suppress(psutil.NoSuchProcess):
                        one.send_signal(signal.SIGTERM)
                assert time.monotonic() < began + END_S
                time.sleep(0.05)
            assert process.returncode == 128 + signal.SIGTERM
        finally:
            process.kill()
    spaces = subprocess.run(["ip", "netns", "list"], check=True, capture_output=True, text=True)
    assert not [child.pid for child in children if f"matex-{child.pid}-" in spaces.stdout]
    assert not list(tmp_path.iterdir())
