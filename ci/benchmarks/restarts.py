"""Cost of one killed rank, survived in place and by restarts: JSON lines, and a table.

    python -m ci.benchmarks.restarts [--ranks 3] [--times 5] [--every 5]

A training of a 28-200-200-200-1 network, in which one rank is killed by SIGKILL in step ``STEP``:

``in-place``  the others go on, as ULFM lets them
``memory``    without ULFM, started again from the memory of the host
``file``      without ULFM, started again from a file of ``--checkpoint``

Memory and file are both written each ``--every`` seconds; a file at the end of each epoch, too, of
which one is as long as the training. ``next_step_s`` is from the death to the next step that all
ranks have finished, ``again_s`` from the death until the training has come as far as it was, and
``repeated`` how many steps were made again for that. ``lost`` counts samples. A line a training, in
an order that turns around each time, then medians and the longest.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
from pathlib import Path
from typing import Any

from ci.benchmarks.one_run import matex_run
from ci.network.emulated import end_tidily

WAYS = ("in-place", "memory", "file")
STEP, STEPS, BATCH = 700, 1000, 512
_FIGURES = ("next_step_s", "again_s", "repeated")
Events = list[dict[str, Any]]


def work() -> None:
    """Train on every rank."""
    import keras
    import numpy as np

    keras.utils.set_random_seed(1)
    x = np.random.default_rng(1).normal(size=(BATCH * STEPS, 28)).astype(np.float32)
    hidden = [keras.layers.Dense(200, "relu") for _ in range(3)]
    model = keras.Sequential([keras.Input((28,)), *hidden, keras.layers.Dense(1)])
    model.compile(keras.optimizers.Adam(3e-4), "mse")
    model.fit(x, x[:, :1] * x[:, 1:2], epochs=1, batch_size=BATCH, verbose=0)


def options_of(way: str, every: float, folder: str) -> list[str]:
    """Options of ``matex run`` for one way to survive."""
    restarts = ["--max-restarts", "1"]
    if way == "memory":
        return [*restarts, "--memory-every", str(every)]
    if way == "file":
        files = ["--checkpoint", folder, "--checkpoint-interval", str(every)]
        return [*restarts, "--memory-every", "100000", *files]
    return []


def figures_of(summary: dict[str, Any], events: Events) -> dict[str, Any]:
    """The figures of a training with one death."""
    (fault,) = [one for one in summary["faults"] if one["overcome"] is not None]
    resumed = [event["step"] for event in events if event["event"] == "resumed"]
    passed_s = min(
        event["time_s"]
        for event in events
        if event["event"] == "progress"
        and event["step"] >= fault["step"]
        and event["time_s"] >= fault["time_s"] + fault["to_next_step_s"]
    )
    return {
        "overcome": fault["overcome"],
        "next_step_s": fault["to_next_step_s"],
        "again_s": passed_s - fault["time_s"],
        "repeated": fault["step"] - resumed[0] if resumed else 0,
        "lost": summary["samples_lost"],
        "step_s": summary["step_s"],
        "load": round(os.getloadavg()[0], 1),
    }


def trained(way: str, ranks: int, every: float) -> dict[str, Any]:
    """The figures of a training that survives the death in one of the ways."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        words = ["-n", str(ranks), "--threads", "1", *options_of(way, every, folder)]
        words += ["--inject", f"kill:rank={ranks - 1},step={STEP}"]
        script = [str(Path(__file__).resolve()), "--as-a-rank"]
        found = matex_run(*words, *script, MATEX_ULFM=str(int(way == "in-place")))
    return figures_of(*found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--ranks", type=int, default=3)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--every", type=float, default=5.0, help="seconds between two checkpoints")
    parser.add_argument("--as-a-rank", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.as_a_rank:
        work()
        return
    end_tidily()
    made: dict[str, list[dict[str, Any]]] = {way: [] for way in WAYS}
    for number in range(arguments.times):
        for way in WAYS[:: -1 if number % 2 else 1]:
            made[way].append(trained(way, arguments.ranks, arguments.every))
            print(json.dumps({"way": way, **made[way][-1]}), flush=True)
    for way, each in made.items():
        shown = (
            f"{name} {statistics.median(one[name] for one in each):8.2f}"
            f" (longest {max(one[name] for one in each):8.2f})"
            for name in _FIGURES
        )
        print(f"{way:9}", *shown)


if __name__ == "__main__":
    main()
