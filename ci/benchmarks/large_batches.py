"""LARS and SGD at a large batch against SGD at a small one: JSON lines, and a table.

    python -m ci.benchmarks.large_batches mnist.h5 [--ranks 4] [--epochs 20] [--seed 1]
                                          [--trainings "sgd 256 .05; lars 8192 10; ..."]

A perceptron 784-300-100-10 learns the digits x_train, y_train of the file, and its accuracy on
x_test, y_test is measured after equal epochs. A training is an optimizer (both with a momentum of
.9), a global batch and a learning rate. Ranks share the batch by ``--batch-per-rank``: the script
has a rank's part of the batch, and of the rate, which ``--lr-scaling linear`` raises to the given
one over ``--warmup-epochs`` (5). Of each optimizer and batch the best rate is shown at the end.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

import h5py

from ci.benchmarks.one_run import matex_run
from ci.network.emulated import end_tidily

MOMENTUM = 0.9
TRAININGS = (
    "sgd 256 .02; sgd 256 .05; sgd 256 .1; sgd 8192 .3; sgd 8192 .8; sgd 8192 1.6; "
    "lars 8192 3; lars 8192 10; lars 8192 30"
)


def work(path: Path, given: argparse.Namespace) -> None:
    """Train on every rank with its part of batch and rate."""
    import keras

    from matex.optimizers import LARS

    layers = keras.layers
    with h5py.File(path) as file:
        x, y = file["x_train"][:] / 255, file["y_train"][:]
        held_out = file["x_test"][:] / 255, file["y_test"][:]
    keras.utils.set_random_seed(given.seed)
    model = keras.Sequential(
        [
            keras.Input(x.shape[1:]),
            layers.Flatten(),
            layers.Dense(300, activation="relu"),
            layers.Dense(100, activation="relu"),
            layers.Dense(10),
        ]
    )
    kinds = {"sgd": keras.optimizers.SGD, "lars": LARS}
    model.compile(
        kinds[given.optimizer](given.rate, momentum=MOMENTUM),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    model.fit(
        x.astype("float32"), y, epochs=given.epochs, batch_size=given.batch, verbose=0,
        validation_data=held_out, validation_freq=given.epochs, validation_batch_size=2000,
    )  # fmt: skip


def trained(training: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """The figures of one training."""
    optimizer, batch, rate = training.split()
    ranks = arguments.ranks
    words = ["-n", str(ranks), "--threads", "1", "--batch-per-rank", "--lr-scaling", "linear"]
    words += ["--warmup-epochs", str(arguments.warmup_epochs), str(Path(__file__).resolve())]
    words += [str(arguments.data.resolve()), "--optimizer", optimizer]
    words += ["--batch", str(int(batch) // ranks), "--rate", str(float(rate) / ranks)]
    words += ["--epochs", str(arguments.epochs), "--seed", str(arguments.seed)]
    summary, _ = matex_run(*words)
    metrics = summary["metrics"]
    return {
        "optimizer": optimizer,
        "batch": int(batch),
        "rate": float(rate),
        "accuracy": metrics["val_accuracy"],
        "loss": metrics["loss"],
        "steps": summary["steps"],
        "wall_s": round(summary["wall_s"], 1),
        "load": round(os.getloadavg()[0], 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--trainings", default=TRAININGS, help="separated by semicolons")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--warmup-epochs", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--optimizer", help=argparse.SUPPRESS)  # and what else a rank is given
    parser.add_argument("--batch", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--rate", type=float, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.optimizer is not None:
        work(arguments.data, arguments)
        return
    end_tidily()
    best: dict[tuple[str, int], dict[str, Any]] = {}
    for training in arguments.trainings.split(";"):
        found = trained(training, arguments)
        print(json.dumps(found), flush=True)
        kind = found["optimizer"], found["batch"]
        best[kind] = max(best.get(kind, found), found, key=lambda one: one["accuracy"])
    for (optimizer, batch), found in best.items():
        print(f"{optimizer:5} {batch:6} rate {found['rate']:6g} accuracy {found['accuracy']:.4f}")


if __name__ == "__main__":
    main()
