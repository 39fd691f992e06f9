"""Time and loss of each strategy on a slow network: one JSON object a line.

    python -m ci.benchmarks.strategies [--strategies sync,gossip,...] [--rate 100] [--delay 1]

Two hosts of two ranks, joined by ci/network/emulated.py, train a CNN of a million parameters
on drawn digits (or --data mnist.h5), once with each strategy, from one seed. ``step_ms`` is
the median step; ``to_loss_s`` the time from the first step to the held-out loss with which
the first strategy (sync) ended, interpolated between epochs, null where it was not reached;
``less_percent`` is how much less that is than the first strategy's; ``megabytes_a_step`` went
between the hosts. Options of ``matex run`` for one strategy follow its name after blanks:
--strategies "sync,daso --ranks-per-node 2".

Needs root, for network namespaces.
"""

from __future__ import annotations

import argparse
import importlib
import json
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from ci.jobs import ROOT, environment
from ci.network.emulated import emulated, end_tidily
from ci.network.switch import Link

HOSTS, SLOTS = 2, 2


def work(data: Path | None, images: int, epochs: int, batch_size: int) -> None:
    """Train on every rank, and write the times of steps and the losses of epochs."""
    sys.path.insert(0, str(ROOT / "examples"))
    import keras

    digits: Any = importlib.import_module("course.digits")
    found = digits.draw(images + 2000, seed=1) if data is None else digits.read(data)
    keras.utils.set_random_seed(1)
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((digits.SIDE, digits.SIDE)),
            layers.Rescaling(1 / 255),
            layers.Reshape((digits.SIDE, digits.SIDE, 1)),
            layers.Conv2D(32, 3, strides=2, activation="relu"),
            layers.Conv2D(64, 3, strides=2, activation="relu"),
            layers.Flatten(),
            layers.Dense(400, activation="relu"),
            layers.Dense(10),
        ]
    )
    model.compile(
        keras.optimizers.SGD(0.01, momentum=0.9),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    model.fit(
        found.x_train[:images],
        found.y_train[:images],
        validation_data=(found.x_test[:1000], found.y_test[:1000]),
        epochs=epochs,
        batch_size=batch_size,
        verbose=0,
    )


def run(words: list[str], link: Link, script: list[str]) -> dict[str, Any]:
    """One training with the strategy that *words* begin with."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, emulated(HOSTS, link) as network:
        report = Path(folder) / "report"
        command = [*network.head, sys.executable, "-m", "matex", "run", "--report", str(report)]
        command += ["-n", str(HOSTS * SLOTS), "--hosts", network.hosts(SLOTS)]
        command += ["--strategy", *words, *script]
        done = subprocess.run(
            command, env=environment(**network.environment, TF_CPP_MIN_LOG_LEVEL="2"),
            capture_output=True, text=True, check=False, timeout=3600,
        )  # fmt: skip
        if done.returncode:
            raise SystemExit(f"{' '.join(command)} ended with {done.returncode}\n{done.stderr}")
        events = [json.loads(line) for line in (report / "events.jsonl").read_text().splitlines()]
        summary = json.loads((report / "summary.json").read_text())
        if summary["world_size_end"] != HOSTS * SLOTS:  # those left would train on, and be faster
            raise SystemExit(
                f"{HOSTS * SLOTS} ranks were to be measured. Received: "
                f"{summary['world_size_end']} at the end; try again"
            )
        sent = sum(network.switch.sent)
        dropped = network.switch.dropped
    began = min(e["time_s"] for e in events if e["event"] == "first-step")
    leader = min(e["rank"] for e in events if e["event"] == "epoch")
    epochs = [e for e in events if e["event"] == "epoch" and e["rank"] == leader]
    return {
        "strategy": " ".join(words),
        "step_ms": 1e3 * summary["step_s"],
        "seconds": [e["time_s"] - began for e in epochs],
        "val_loss": [e["val_loss"] for e in epochs],
        "val_accuracy": [e["val_accuracy"] for e in epochs],
        "megabytes_a_step": sent / 1e6 / summary["steps"],
        "frames_dropped": dropped,
    }


def time_to(loss: float, seconds: list[float], losses: list[float]) -> float | None:
    """The time at which *losses* first came down to *loss*, on lines between epochs. Pure."""
    before: tuple[float, float] | None = None
    for when, value in zip(seconds, losses, strict=True):
        if value <= loss:
            if before is None or before[1] <= loss:
                return when
            share = (before[1] - loss) / (before[1] - value)
            return before[0] + share * (when - before[0])
        before = when, value
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--strategies",
        default="sync,gossip,daso,easgd,easgd --asynchronous,downpour,easgd --two-level,"
        "easgd --asynchronous --two-level,downpour --two-level",
    )
    parser.add_argument("--rate", type=float, default=100.0, help="megabits a second")
    parser.add_argument("--delay", type=float, default=1.0, help="milliseconds")
    parser.add_argument("--data", type=Path, help="an HDF5 file of digits (default: drawn ones)")
    parser.add_argument("--images", type=int, default=6000)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument(
        "--beyond", type=int, default=0, help="epochs that all but the first strategy do on top"
    )
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--as", dest="role", choices=("parent", "rank"), default="parent")
    arguments = parser.parse_args()
    if arguments.role == "rank":
        work(arguments.data, arguments.images, arguments.epochs, arguments.batch_size)
        return
    end_tidily()
    script = [str(Path(__file__).resolve()), "--as", "rank", "--images", str(arguments.images)]
    script += ["--batch-size", str(arguments.batch_size)]
    if arguments.data is not None:
        script += ["--data", str(arguments.data.resolve())]
    link = Link(rate_bit_s=1e6 * arguments.rate, delay_s=1e-3 * arguments.delay)
    first: dict[str, Any] | None = None
    for strategy in arguments.strategies.split(","):
        epochs = arguments.epochs + (arguments.beyond if first else 0)
        result = run(shlex.split(strategy), link, [*script, "--epochs", str(epochs)])
        first = first or result
        reached = time_to(first["val_loss"][-1], result["seconds"], result["val_loss"])
        result["to_loss_s"] = reached
        if reached is not None:
            result["less_percent"] = 100 * (1 - reached / first["seconds"][-1])
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
