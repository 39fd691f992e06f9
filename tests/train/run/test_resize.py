"""Ranks leave a training on purpose, and others come: nothing is lost."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ci.patience import patience
from matex.cli import main
from tests.train.runs import PATHS, SCRIPTS


def events_in(report: Path, name: str) -> list[dict[str, Any]]:
    path = report / "events.jsonl"
    text = path.read_text() if path.exists() else ""
    lines = text[: text.rfind("\n") + 1].splitlines()
    return [json.loads(line) for line in lines if f'"event": "{name}"' in line]


def wait_for(run: subprocess.Popen[bytes], report: Path, name: str, times: int = 1) -> None:
    limit = time.monotonic() + patience(120)
    while len(events_in(report, name)) < times:
        assert run.poll() is None and time.monotonic() < limit
        time.sleep(0.05)


@contextlib.contextmanager
def endless(folder: Path, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """A training on two ranks with these *options*, in its first steps."""
    command = [sys.executable, "-m", "matex", "run", "-n", "2", *options, "--report", "out"]
    command += ["--checkpoint", "saved", str(SCRIPTS / "interrupted.py"), "--endless"]
    variables = {**os.environ, "PYTHONPATH": PATHS}
    run = subprocess.Popen(command, cwd=folder, env=variables, stdout=subprocess.PIPE)
    try:
        wait_for(run, folder / "out", "first-step")
        yield run
    finally:
        if run.poll() is None:
            run.kill()
            run.wait()


def ended(run: subprocess.Popen[bytes], folder: Path) -> tuple[dict[str, Any], str]:
    """Summary and output of *run*, whose ranks end resumable with one state, nothing lost."""
    run.send_signal(signal.SIGTERM)
    said = run.communicate(timeout=patience(60))[0].decode()
    assert run.returncode == 75
    summary = json.loads((folder / "out" / "summary.json").read_text())
    assert len(set(summary["weights_hash"].values())) == 1
    assert summary["samples_used"] == 64 * summary["steps"] > 0
    assert summary["samples_repeated"] == 0
    assert summary["ranks_lost"] == summary["faults"] == []
    return summary, said


def test_ranks_leave_and_come(tmp_path: Path) -> None:
    report = tmp_path / "out"
    with endless(tmp_path, "--respawn") as run:
        assert main(["resize", str(report), "1"]) == 0
        (leaving,) = events_in(report, "resize")
        assert (leaving["leaving"], leaving["world_size"]) == ([1], 1)
        assert not events_in(report, "respawn")  # it is wanted so
        assert main(["resize", str(report), "3"]) == 0  # one more than at the start
        wait_for(run, report, "took-over", times=2)
        summary, said = ended(run, tmp_path)
    assert summary["world_size_end"] == 3
    step = leaving["step"]
    assert summary["ranks_left"] == [{"rank": 1, "step": step, "request": "resize to 1"}]
    (left,) = events_in(report, "left")
    assert (left["rank"], left["step"], left["request"]) == (1, step, "resize to 1")
    (recovered,) = events_in(report, "recovered")
    assert (recovered["step"], recovered["lost"], recovered["left"]) == (step, [1], [1])
    assert not events_in(report, "replayed")  # the next step counted on none of its rows
    assert not events_in(report, "death")
    assert f"matex: rank 1 left before step {step}; going on with 1 of 2 ranks" in said
    assert "lost" not in said


def test_ranks_leave_and_spares_begin(tmp_path: Path) -> None:
    """A spare takes no place that is left on purpose, and one of its own where more are wanted."""
    report = tmp_path / "out"
    with endless(tmp_path, "--spares", "1") as run:
        assert main(["resize", str(report), "1"]) == 0
        wait_for(run, report, "recovered")
        assert not events_in(report, "joined")
        assert main(["resize", str(report), "2"]) == 0
        wait_for(run, report, "joined")
        assert main(["resize", str(report), "3"]) == 1
        summary, said = ended(run, tmp_path)
    assert (summary["world_size_start"], summary["world_size_end"]) == (2, 2)
    assert (summary["spares_used"], summary["respawned"]) == (1, 0)
    assert [left["rank"] for left in summary["ranks_left"]] == [1]
    assert "ranks can join a fit only with --respawn" in said


def test_a_process_that_is_started_behind_a_spare_waits_as_one(tmp_path: Path) -> None:
    report = tmp_path / "out"
    with endless(tmp_path, "--spares", "1", "--respawn", "--inject", "kill:rank=1,step=20") as run:
        wait_for(run, report, "waits", times=2)
        seen = len(events_in(report, "epoch"))
        wait_for(run, report, "epoch", times=seen + 10)
        run.send_signal(signal.SIGTERM)
        run.communicate(timeout=patience(60))
    joined = [event["joined"] for event in events_in(report, "recovered")]
    assert joined == [{"1": 2}]
    assert not events_in(report, "joined")
