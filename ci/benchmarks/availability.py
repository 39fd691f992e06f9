"""A training with a death each 15 s, and the same without: one JSON object.

    python -m ci.benchmarks.availability [--ranks 4] [--epochs 150] [--mtbf-s 15] [--seed 1]
                                         [--floatx float64]

The training is a perceptron of 3 x 1,024 units on 20,480 rows of 28 features, 512 a step. It is
made twice by ``matex run --respawn``: undisturbed, and with ranks killed by SIGKILL at random
intervals of ``--mtbf-s`` seconds on average, mostly one, at times two at once, whether or not
those before have been replaced. ``samples_s`` are samples a second between the first step and the
last, ``throughput`` is the second over the first, and ``loss_differs`` the largest difference of an
epoch's loss, relative to that of the undisturbed; in float32 rounding grows, in float64 a fault
would show.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from ci.benchmarks.respawn import median_and_most
from ci.chaos.respawn.killer import Killer
from ci.jobs import environment

_ROWS, _FEATURES, _UNITS, _BATCH = 20_480, 28, 1024, 512
_LOOK_S = 0.02


def train(epochs: int, floatx: str) -> None:
    """The training; a script that knows nothing of matex."""
    import keras
    import numpy as np

    keras.config.set_floatx(floatx)
    keras.utils.set_random_seed(5)
    draw = np.random.default_rng(5)
    x = draw.normal(size=(_ROWS, _FEATURES)).astype(floatx)
    y = (np.tanh(x[:, :4]).sum(1) + np.square(x[:, 4:8]).sum(1) > 4).astype(floatx)
    hidden = [keras.layers.Dense(_UNITS, activation="relu") for _ in range(3)]
    model = keras.Sequential([*hidden, keras.layers.Dense(1, activation="sigmoid")])
    optimizer = keras.optimizers.SGD(0.01, momentum=0.9)
    model.compile(optimizer, "binary_crossentropy", metrics=["accuracy"])
    model.fit(x, y, batch_size=_BATCH, epochs=epochs, verbose=0)


def made(given: argparse.Namespace, *, mtbf_s: float | None) -> dict[str, Any]:
    """The training on ranks that are killed each *mtbf_s* seconds on average, or never."""
    with tempfile.TemporaryDirectory(prefix="mx-") as place:
        report = Path(place) / "report"
        command = [sys.executable, "-m", "matex", "run", "-n", str(given.ranks), "--respawn"]
        command += ["--report", str(report), __file__, "--train", str(given.epochs)]
        command += ["--floatx", given.floatx]
        with (Path(place) / "output").open("w+") as output:
            run = subprocess.Popen(
                command, cwd=place, env=environment(), stdin=subprocess.DEVNULL,
                stdout=output, stderr=subprocess.STDOUT,
            )  # fmt: skip
            try:
                killer = _killed(run, report / "events.jsonl", given, mtbf_s)
            finally:
                while run.poll() is None:
                    run.send_signal(signal.SIGTERM)
                    time.sleep(1)
            if run.returncode:
                output.seek(0)
                raise SystemExit(f"matex run ended with {run.returncode}\n{output.read()[-4000:]}")
        summary = json.loads((report / "summary.json").read_text())
    return _figures(killer, summary)


def _killed(
    run: subprocess.Popen[bytes], events: Path, given: argparse.Namespace, mtbf_s: float | None
) -> Killer:
    """The killer, when *run* has ended."""
    draw = random.Random(given.seed)
    killer = Killer(events, given.ranks, draw, every=0, only_whole=False)
    due_s = float("inf")
    while run.poll() is None:
        killer.look(kills=False)
        if mtbf_s is not None and killer.step:
            now_s = time.monotonic()
            if now_s >= due_s:
                killer.strike()
            if now_s >= due_s or due_s == float("inf"):
                due_s = now_s + draw.expovariate(1 / mtbf_s)
        time.sleep(_LOOK_S)
    killer.look(kills=False)
    return killer


def _figures(killer: Killer, summary: dict[str, Any]) -> dict[str, Any]:
    steps = [event for event in killer.events if event["event"] == "progress"]
    seconds = steps[-1]["time_s"] - steps[0]["time_s"]
    losses = {e["epoch"]: e["loss"] for e in killer.events if e["event"] == "epoch"}
    faults = summary["faults"]
    found = {
        "seconds": round(seconds, 1),
        "samples_s": round((steps[-1]["samples"] - steps[0]["samples"]) / seconds),
        "deaths": len(killer.killed),
        "lost": summary["samples_lost"],
        "repeated": summary["samples_repeated"],
        "ranks_at_the_end": summary["world_size_end"],
        "hashes": len(set(summary["weights_hash"].values())),
        "losses": [loss for _, loss in sorted(losses.items())],
    }
    for name in ("respawn_s", "pause_s", "to_next_step_s"):
        found[name] = median_and_most(fault[name] for fault in faults)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=150)
    parser.add_argument("--mtbf-s", type=float, default=15.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--floatx", default="float32", choices=["float32", "float64"])
    parser.add_argument("--train", type=int, metavar="EPOCHS", help="be the script")
    given = parser.parse_args()
    if given.train:
        train(given.train, given.floatx)
        return
    undisturbed = made(given, mtbf_s=None)
    disturbed = made(given, mtbf_s=given.mtbf_s)
    pairs = list(zip(disturbed.pop("losses"), undisturbed.pop("losses"), strict=True))
    found = {
        "undisturbed": undisturbed,
        "disturbed": disturbed,
        "throughput": round(disturbed["samples_s"] / undisturbed["samples_s"], 3),
        "loss_differs": max(abs(a - b) / abs(b) for a, b in pairs),
        "last_loss": list(pairs[-1]),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
