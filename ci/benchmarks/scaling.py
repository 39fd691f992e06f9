"""Two ranks on two cores against one process on one core: mnist.h5, as JSON lines.

    python -m ci.benchmarks.scaling [--what fit] [--ranks 2] [--rounds 6] [--data FILE]

A script that reads MNIST from its file and fits a CNN of 1 M parameters for one epoch, unchanged:
in plain Keras, and with ``matex run`` on ranks that each have a core and one TensorFlow thread.
The global batch is the same. Both are started once and take turns; a line each round, the
first of which traces and does not count, then the medians: ``ratio = matex_s / single_s``.
``--what evaluate`` and ``--what predict`` do that with all 60,000 digits in place of the epoch.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from ci.benchmarks import turns
from ci.jobs import ROOT, environment

BATCH = 256
DATA = ROOT.parent / "shared" / "data" / "mnist.h5"


def part_of(what: str, data_file: Path) -> Callable[[], float]:
    """A function that trains, evaluates or predicts once and gives its seconds, with reading."""
    import keras

    from matex import data

    mnist = data.open(data_file)
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((28, 28)),
            layers.Rescaling(1 / 255),
            layers.Reshape((28, 28, 1)),
            layers.Conv2D(16, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(32, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(1000, activation="relu"),
            layers.Dense(200, activation="relu"),
            layers.Dense(10),
        ]
    )
    assert 1.0e6 < model.count_params() < 1.1e6
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(1e-3), loss, metrics=["accuracy"])

    given = (mnist.x_train,) if what == "predict" else (mnist.x_train, mnist.y_train)

    def part() -> float:
        started = time.perf_counter()
        getattr(model, what)(*given, batch_size=BATCH, verbose=0)
        return time.perf_counter() - started

    return part


def compare(what: str, ranks: int, rounds: int, data_file: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="bench-") as path:
        work = [str(Path(__file__).resolve()), "--data", str(data_file), "--rounds", str(rounds)]
        work += ["--folder", path, "--what", what, "--as"]
        matex = [sys.executable, "-m", "matex", "run", "-n", str(ranks), "--threads", "1"]
        seconds = turns.take_turns(
            {
                "single": ([sys.executable, *work, "single"], environment(**turns.ONE_THREAD)),
                "matex": ([*matex, *work, "matex"], environment()),
            },
            rounds=rounds,
            folder=Path(path),
            on_one_core=["single"],
        )
    for number, (single, shared) in enumerate(zip(*seconds.values(), strict=True)):
        figures = {"single_s": round(single, 3), "matex_s": round(shared, 3)}
        print(json.dumps({"round": number, **figures, "ratio": shared / single}))
    medians = {who: statistics.median(measured[1:]) for who, measured in seconds.items()}
    print(
        json.dumps(
            {
                "what": what,
                "ranks": ranks,
                "rounds": rounds - 1,
                **{f"{who}_s": round(median, 3) for who, median in medians.items()},
                "ratio": medians["matex"] / medians["single"],
            }
        ),
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--what", choices=("fit", "evaluate", "predict"), default="fit")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--data", type=Path, default=DATA, help="mnist.h5")
    parser.add_argument("--as", dest="who", choices=("single", "matex"), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if not arguments.data.exists():
        parser.error(f"mnist.h5 is wanted (--data FILE). Received: {arguments.data}, no file")
    if arguments.folder is None:
        compare(arguments.what, arguments.ranks, arguments.rounds, arguments.data)
    else:
        part = part_of(arguments.what, arguments.data)
        turns.wait_for_turns(arguments.folder, arguments.who, arguments.rounds, part)


if __name__ == "__main__":
    main()
