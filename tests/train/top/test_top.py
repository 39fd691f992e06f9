"""``matex top`` on a run that loses a rank: while it trains, and after its end."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ci.jobs import environment
from ci.patience import patience
from matex.records.launcher_protocol.heartbeat_file import read_sign
from tests.train.runs import execute

# Sixteen steps an epoch. In the second, all stop after three steps, so that what they have
# written does not change while it is looked at.
SCRIPT = """
import pathlib
import time

import keras
import numpy as np


class Stop(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        while (self.epoch, batch) == (1, 2) and not pathlib.Path("go").exists():
            time.sleep(0.01)


keras.utils.set_random_seed(5)
x = np.random.default_rng(0).normal(size=(1000, 12)).astype("float32")
layers = [keras.layers.Dense(16, "relu"), keras.layers.Dense(1, "sigmoid")]
model = keras.Sequential([keras.Input((12,)), *layers])
model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
model.fit(x, x[:, 0] > 0, batch_size=64, epochs=2, verbose=0, callbacks=[Stop()])
"""
DONE = 16 + 3


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A run as it was seen while all its ranks stood still, and after its end.

    Args:
        report: report directory.
        events: events that were written when it stood still.
        during: lines of the screen of that time.
        after: lines of the screen after the end.
    """

    report: Path
    events: list[dict[str, Any]]
    during: list[str]
    after: list[str]

    def newest(self, name: str, **fields: Any) -> dict[str, Any]:
        """The last event of that name and with these fields before the run stood still."""
        found = [e for e in self.events if e["event"] == name and fields.items() <= e.items()]
        return found[-1]


def events_in(report: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (report / "events.jsonl").read_text().splitlines()]


def screen(folder: Path) -> list[str]:
    """The lines of ``matex top --once``, for the newest report below *folder*."""
    done = execute([sys.executable, "-m", "matex", "top", "--once"], directory=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    return done.stdout.splitlines()


def wait_until_it_stands_still(report: Path) -> None:
    limit = time.monotonic() + patience(90)
    while read_sign(report).step < DONE:
        assert time.monotonic() < limit
        time.sleep(0.02)


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    folder = tmp_path_factory.mktemp("top")
    report = folder / "out"
    (folder / "script.py").write_text(SCRIPT)
    command = [sys.executable, "-m", "matex", "run", "-n", "3", "--report", "out"]
    command += ["--checkpoint", "saved", "--checkpoint-every", "8", "--wall-time", "1:00:00"]
    command += ["--inject", "kill:rank=1,step=5", "script.py"]
    run = subprocess.Popen(command, cwd=folder, env=environment())
    try:
        wait_until_it_stands_still(report)
        during, events = screen(folder), events_in(report)
        (folder / "go").touch()
        assert run.wait(timeout=patience(90)) == 0
    finally:
        if run.poll() is None:
            run.send_signal(signal.SIGTERM)
            run.wait(timeout=patience(60))
    return Seen(report=report, events=events, during=during, after=screen(folder))


def value(lines: list[str], name: str) -> str:
    """The text beside *name*."""
    return next(line.partition(name)[2].strip() for line in lines if line.startswith(f"{name} "))


def row(lines: list[str], rank: int) -> list[str]:
    """The cells of a rank in the table of ranks."""
    head = next(n for n, line in enumerate(lines) if line.startswith("rank  host"))
    return next(line.split() for line in lines[head:] if line.split()[0] == str(rank))


def assert_times_as_told(cells: list[str], told: dict[str, Any]) -> None:
    """The times of a rank's row are those of its last event, to three digits."""
    step_ms, exchange_ms = (float(cell.replace(",", "")) for cell in cells[4:6])
    assert step_ms == pytest.approx(1e3 * told["step_s"], rel=0.01)
    assert exchange_ms == pytest.approx(1e3 * told["exchange_s"], rel=0.01)


def test_a_run_that_trains_is_shown(seen: Seen) -> None:
    lines = seen.during
    assert value(lines, "run").startswith("training with 2 of 3 ranks, for ")
    assert value(lines, "step") == f"{DONE}, epoch 2 of 2 (step 3 of 16)"
    assert value(lines, "samples") == f"{seen.newest('progress')['samples']:,}"
    saved = seen.newest("checkpoint")["step"]
    assert value(lines, "checkpoint").startswith(f"step {saved}, ")
    assert re.fullmatch(r"59 min \d\d s left", value(lines, "wall time"))
    accuracy = seen.newest("epoch", rank=0)["accuracy"]
    assert float(value(lines, "accuracy").split()[0]) == pytest.approx(accuracy, rel=1e-4)
    loss = [e for e in seen.events if e["event"] in ("progress", "epoch")][-1]["loss"]
    assert float(value(lines, "loss").split()[0]) == pytest.approx(loss, rel=1e-4)


def test_the_ranks_while_it_trains(seen: Seen) -> None:
    for rank in (0, 2):
        cells = row(seen.during, rank)
        assert cells[:3] == [str(rank), socket.gethostname(), "training"]
        assert_times_as_told(cells, seen.newest("timing", rank=rank))
        assert cells[-1] in ("MB", "GB")
    assert row(seen.during, 1)[2:] == ["dead", "5"]
    assert "rank 1 died: kill:rank=1,step=5" in seen.during


def test_a_run_that_has_ended_is_shown(seen: Seen) -> None:
    summary = json.loads((seen.report / "summary.json").read_text())
    lines = seen.after
    assert value(lines, "run").startswith("finished with 2 of 3 ranks, took ")
    assert value(lines, "step") == f"{summary['steps']}, 2 of 2 epochs done"
    assert value(lines, "samples") == f"{summary['samples_used']:,}" == "2,000"
    for name in ("loss", "accuracy"):
        shown = float(value(lines, name).split()[0])
        assert shown == pytest.approx(summary["metrics"][name], rel=1e-4)
    assert [row(lines, rank)[2] for rank in range(3)] == ["finished", "dead", "finished"]
    for rank in (0, 2):
        assert row(lines, rank)[3] == str(summary["steps"])
        told = [e for e in events_in(seen.report) if (e["event"], e["rank"]) == ("timing", rank)]
        assert_times_as_told(row(lines, rank), told[-1])
        assert sum(event["steps"] for event in told) == summary["steps"]


def test_what_happened_is_told_in_words(seen: Seen) -> None:
    told = [line[10:] for line in seen.after if re.match(r"\d\d:\d\d:\d\d  ", line)]
    assert "the injected fault kill:rank=1,step=5 strikes rank 1" in told
    (recovery,) = [line for line in told if line.startswith("lost rank 1 in step 5; ")]
    assert "; 2 of 3 ranks go on, repaired in " in recovery
    assert told[-1] == "the run finished"


def test_ranks_note_their_times_seldom(seen: Seen) -> None:
    """A note a second of each rank, of which the first is of the first step, and one at the end."""
    events = events_in(seen.report)
    took_s = events[-1]["time_s"] - events[0]["time_s"]
    notes = [e for e in events if e["event"] == "timing" and e["rank"] == 0]
    assert 2 <= len(notes) <= took_s + 1
