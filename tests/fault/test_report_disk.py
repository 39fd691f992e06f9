"""A report directory that is full, or is removed, while a run trains: nothing stops."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ci.patience import patience
from matex.records.scalars import TENSORBOARD
from matex.records.trace_part import part_name
from matex.report.trace import TRACE
from tests.trace_format import read_trace
from tests.train.runs import ROOT, SCRIPTS

STEPS = 200


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a file system of its own needs root, who may mount")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(disk: Path) -> None:
    """Until not a byte is left; what is written now takes the last place of it."""
    with (disk / "other").open("wb", buffering=0) as file:
        while True:
            try:
                file.write(bytes(512))
            except OSError:
                return


@pytest.mark.parametrize("fate", ["full", "removed"])
def test_training_goes_on_and_the_summary_is_there(
    fate: str, small_disk: Path, tmp_path: Path
) -> None:
    report, notes = small_disk / "report", tmp_path / "notes"
    notes.mkdir()
    command = [sys.executable, "-m", "matex", "run", "-n", "2", "--report", report]
    process = subprocess.Popen(
        [*command, SCRIPTS / "noted_steps.py", notes, str(STEPS), "0.02"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        while sum(len(path.read_text().splitlines()) for path in notes.glob("*")) < 20:
            assert process.poll() is None
            time.sleep(0.05)
        if fate == "full":
            fill(small_disk)
        else:
            shutil.rmtree(report.rename(small_disk / "aside"))  # nothing is written into it now
        output, _ = process.communicate(timeout=patience(120))
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            print(process.communicate(timeout=patience(30))[0])
    assert process.returncode == 0, output
    summary = json.loads((report / "summary.json").read_text())
    assert (summary["status"], summary["steps"]) == ("finished", STEPS)
    assert summary["samples_used"] == summary["samples_expected"] == STEPS * 24
    assert (output.count("are kept in memory") == 1) == (fate == "full"), output
    for name in (part_name(0), TENSORBOARD):
        assert output.count(f"{report / name} cannot be written: No") == (fate == "full"), output
    if fate == "removed":
        assert list((report / TENSORBOARD).iterdir())
        read_trace(report / TRACE)
        events = [json.loads(line) for line in (report / "events.jsonl").open()]
        assert {event["rank"] for event in events if event["event"] == "start"} == {0, 1}
