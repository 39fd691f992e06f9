"""Ranks leave a training on purpose, and others come: nothing is lost."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from ci.jobs import environment
from ci.patience import patience
from matex.cli import main
from tests.train.runs import SCRIPTS


def events_in(report: Path, name: str) -> list[dict[str, Any]]:
    path = report / "events.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return [event for event in map(json.loads, lines) if event["event"] == name]


def wait_for(run: subprocess.Popen[bytes], report: Path, name: str, times: int = 1) -> None:
    limit = time.monotonic() + patience(120)
    while len(events_in(report, name)) < times:
        assert run.poll() is None and time.monotonic() < limit
        time.sleep(0.05)


def test_ranks_leave_and_come(tmp_path: Path) -> None:
    report = tmp_path / "out"
    command = [sys.executable, "-m", "matex", "run", "-n", "2", "--respawn", "--report", "out"]
    command += ["--checkpoint", "saved", str(SCRIPTS / "interrupted.py"), "--endless"]
    run = subprocess.Popen(command, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE)
    try:
        wait_for(run, report, "first-step")
        assert main(["resize", str(report), "1"]) == 0
        (leaving,) = events_in(report, "resize")
        assert (leaving["leaving"], leaving["world_size"]) == ([1], 1)
        assert not events_in(report, "respawn")  # it is wanted so
        assert main(["resize", str(report), "3"]) == 0  # one more than at the start
        wait_for(run, report, "took-over", times=2)
        run.send_signal(signal.SIGTERM)
        said = run.communicate(timeout=patience(60))[0].decode()
        assert run.returncode == 75
    finally:
        if run.poll() is None:
            run.kill()
            run.wait()
    summary = json.loads((report / "summary.json").read_text())
    assert summary["world_size_end"] == 3
    assert len(set(summary["weights_hash"].values())) == 1
    assert summary["samples_used"] == 64 * summary["steps"] > 0
    assert summary["samples_repeated"] == 0
    step = leaving["step"]
    assert summary["ranks_left"] == [{"rank": 1, "step": step, "request": "resize to 1"}]
    assert summary["ranks_lost"] == summary["faults"] == []
    (left,) = events_in(report, "left")
    assert (left["rank"], left["step"], left["request"]) == (1, step, "resize to 1")
    (recovered,) = events_in(report, "recovered")
    assert (recovered["step"], recovered["lost"], recovered["left"]) == (step, [1], [1])
    assert not events_in(report, "replayed")  # the next step counted on none of its rows
    assert not events_in(report, "death")
    assert f"matex: rank 1 left before step {step}; going on with 1 of 2 ranks" in said
    assert "lost" not in said
