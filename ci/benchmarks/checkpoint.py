"""The time that checkpoints cost: one JSON object a line.

    python -m ci.benchmarks.checkpoint [--ranks 2] [--blocks 16] [--directory DIR] [part ...]

* ``training``: the 1 M-parameter CNN under ``matex run``, in blocks of five seconds that
  take turns: with one snapshot in memory each, and a file in every twelfth, and without.
  ``cost`` is the part by which the steps of the former take longer than those of their
  neighbours, with quartiles; ``account`` the same by adding up, which a busy machine does not
  blur: the pauses between two steps and what a processor works for the thread that writes.
  ``pause_ms`` is what a snapshot takes between two steps; ``copy_ms`` a bare copy of the state
  in the same place, at the start of blocks without.
* ``disk``: a state of 300 MB written by a Store, taking turns with dd and fsync.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import checkpoints
from ci.jobs import environment

if TYPE_CHECKING:
    from matex.checkpointing.deferred_snapshot import DeferredSnapshot

BLOCK_S = 5.0
FILE_EVERY = 12  # blocks with snapshots
NEVER = float("inf")


class Blocks:
    """Times the steps of blocks that take turns, and switches the tiers on at their start."""

    def __init__(self, count: int, held: Callable[[], DeferredSnapshot]) -> None:
        from matex import session

        assert session.current is not None
        self._held = held
        self._kept: list[np.ndarray] = []
        self._saver = session.current.run.saver
        self._leads = session.current.run.communicator.world.is_leader
        self._left = 2 * count
        self._begun = 0.0
        self._steps: list[float] = []
        self._last = 0.0
        self.copies: list[float] = []
        self.steps: dict[bool, list[list[float]]] = {True: [], False: []}
        self._switch(memory=False, files=False)

    def _switch(self, *, memory: bool, files: bool) -> None:
        for tier, due in ((self._saver.memory, memory), (self._saver.files, files)):
            assert tier is not None
            tier.last_s = -NEVER if due else NEVER

    def _copy(self) -> None:
        """Time a bare copy of the state into memory that is there."""
        source = self._held().snapshot()
        arrays = [*source.weights.values(), *source.optimizer.values(), *source.extra.values()]
        if not self._kept:
            self._kept = [array.copy() for array in arrays]
        began = time.perf_counter()
        for target, array in zip(self._kept, arrays, strict=True):
            np.copyto(target, array)
        self.copies.append(time.perf_counter() - began)

    def step(self) -> bool:
        """Note a step that was made; whether there are steps still to make."""
        now = time.perf_counter()
        if self._last:
            self._steps.append(now - self._last)
        self._last = now
        for tier in (self._saver.memory, self._saver.files):
            if tier is not None and tier.last_s > 0:
                tier.last_s = NEVER  # one a block
        if now - self._begun < BLOCK_S:
            return True
        if self._begun:
            self.steps[self._left % 2 == 0].append(self._steps)
            self._left -= 1
        on = self._left % 2 == 0
        self._steps, self._begun = [], now
        number = self._left // 2
        self._switch(memory=on, files=on and number % FILE_EVERY == 1)
        if not on:
            self._copy()
        return self._left > 0


def work(blocks: int, out: Path) -> None:
    """One rank of the training."""
    import keras

    from ci.benchmarks import models
    from matex import session
    from matex.checkpointing import model_state

    model, x, y, batch = models.build("cnn")
    assert session.current is not None
    run = session.current.run
    batch *= run.communicator.world.size

    class Switch(keras.callbacks.Callback):
        timed: Blocks | None = None

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            if self.timed is None:  # the first step traces
                held = functools.partial(
                    model_state.hold, model, {"step": 0}, architecture="", extra={}
                )
                self.timed = Blocks(blocks, held)
            if not self.timed.step():
                self.model.stop_training = True

    switch = Switch()
    pauses: list[float] = []
    save = run.saver.save

    def timed_save(*args: Any, **kwargs: Any) -> None:
        began = time.perf_counter()
        save(*args, **kwargs)
        pauses.append(time.perf_counter() - began)

    run.saver.save = timed_save  # type: ignore[method-assign]
    # One epoch without an end: its rows are all the first one, which takes no memory.
    x, y = (np.broadcast_to(array[:1], (4_000_000, *array.shape[1:])) for array in (x, y))
    model.fit(x, y, batch_size=batch, shuffle=False, verbose=0, callbacks=[switch])
    if run.communicator.world.is_leader:
        assert switch.timed is not None
        out.write_text(
            json.dumps(
                {
                    "with": switch.timed.steps[True],
                    "without": switch.timed.steps[False],
                    "pauses": pauses,
                    "copy": statistics.median(switch.timed.copies),
                    "nbytes": model_state.nbytes_of(model),
                }
            )
        )


def training(ranks: int, blocks: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        out = Path(folder) / "out.json"
        command = [
            *(sys.executable, "-m", "matex", "run", "-n", str(ranks), "--max-restarts", "1"),
            *("--checkpoint", f"{folder}/saved", "--report", folder, "--memory-every", "5"),
            *("--checkpoint-interval", "60", str(Path(__file__).resolve()), "training"),
            *("--blocks", str(blocks), "--out", str(out)),
        ]
        subprocess.run(command, env=environment(), check=True, stdout=subprocess.DEVNULL)
        found = json.loads(out.read_text())
        lines = Path(folder, "events.jsonl").read_text().splitlines()
        events = [json.loads(line) for line in lines]
        sizes = [path.stat().st_size for path in Path(folder, "saved").glob("*.h5")]
    # A mean, since what a snapshot costs is in few of the steps; of each pair of neighbours.
    ratios = [
        statistics.fmean(a) / statistics.fmean(b)
        for a, b in zip(found["with"], found["without"], strict=False)
    ]
    busy_s = sum(event["busy_s"] for event in events if event["event"] == "checkpoint")
    spent_s = sum(map(sum, found["with"]))
    return {
        "part": "training",
        "account": round((busy_s + sum(found["pauses"])) / spent_s, 4),
        "step_ms": round(1e3 * statistics.median(chain.from_iterable(found["without"])), 2),
        "pairs": len(ratios),
        "cost": round(statistics.median(ratios) - 1, 4),
        "cost_quartiles": [round(q - 1, 4) for q in statistics.quantiles(ratios, n=4)],
        "pause_ms": round(1e3 * statistics.median(found["pauses"]), 2),
        "copy_ms": round(1e3 * found["copy"], 2),
        "state_mb": round(found["nbytes"] / 1e6, 1),
        "file_ratio": round(max(sizes) / found["nbytes"], 4) if sizes else None,
    }


def disk(directory: Path, rounds: int = 5) -> dict[str, Any]:
    """The speeds of both in MB/s, medians of *rounds* after one that does not count."""
    size, parts = 300_000_000, 24
    generator = np.random.default_rng(0)
    state = {
        f"layer-{n}/kernel": generator.random(size // 4 // parts, np.float32) for n in range(parts)
    }
    seconds: dict[str, list[float]] = {"store": [], "dd": []}
    with tempfile.TemporaryDirectory(prefix="bench-", dir=directory) as folder:
        store = checkpoints.Store(folder, keep_last=1)
        source = Path(folder) / "source"
        with source.open("wb") as file:
            for array in state.values():
                array.tofile(file)
        for step in range(rounds + 1):
            began = time.perf_counter()
            path = store.save(checkpoints.Snapshot(weights=state, cursor={"step": step}))
            seconds["store"].append(time.perf_counter() - began)
            file_bytes = path.stat().st_size
            target = Path(folder) / "dd"
            began = time.perf_counter()
            subprocess.run(
                ["dd", f"if={source}", f"of={target}", "bs=4M", "conv=fsync", "status=none"],
                check=True,
            )
            seconds["dd"].append(time.perf_counter() - began)
            target.unlink()
            path.unlink()
    speeds = {who: size / 1e6 / statistics.median(s[1:]) for who, s in seconds.items()}
    return {
        "part": "disk",
        **{f"{who}_mb_s": round(speed) for who, speed in speeds.items()},
        "ratio": round(speeds["store"] / speeds["dd"], 3),
        "file_ratio": round(file_bytes / size, 6),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("parts", nargs="*", choices=["training", "disk", []], default=[])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--blocks", type=int, default=16)
    parser.add_argument("--directory", type=Path, default=Path.cwd())
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    if arguments.out is not None:
        work(arguments.blocks, arguments.out)
        return
    parts = arguments.parts or ["disk", "training"]
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    if "disk" in parts:
        print(json.dumps(disk(arguments.directory)), flush=True)
    if "training" in parts:
        print(json.dumps(training(arguments.ranks, arguments.blocks)), flush=True)


if __name__ == "__main__":
    main()
