"""The quality that each strategy reaches in the same epochs: JSON lines, and a table.

    python -m ci.benchmarks.quality higgs.h5 [--seeds 1,2,3] [--strategies "sync;easgd;..."]
                                    [--ranks 4]

The arrays x_train, y_train, x_test, y_test of the file are features of events (held-out AUC of a
28-200-200-200-1 network), images of digits (held-out accuracy of a CNN), or letters of texts
(held-out accuracy of an LSTM for the letters that follow). Each strategy trains them on 4 ranks of
this host, or on each number of ``--ranks 2,4,8``, from each seed. ``less`` is how far it stays
behind the first strategy (sync) from the same seed, which is trained once, on the first number of
ranks, and ``more_loss`` by how much of that one's its training loss in the last epoch is larger.
Options of ``matex run`` follow a strategy's name after blanks; strategies are separated by
semicolons.
"""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np

from ci.benchmarks.one_run import matex_run
from ci.network.emulated import end_tidily

# Where replicas part, each updates by its own rows' gradient, which is noisier: under Adam that
# wants the square root of the ranks.
_LEVELS = "--two-level --ranks-per-node 2"
_PARTING = ("gossip", "daso --ranks-per-node 2", "easgd", "easgd --asynchronous", "downpour",
            "downpour --staleness-bound 0", f"easgd {_LEVELS}", f"easgd --asynchronous {_LEVELS}",
            f"downpour {_LEVELS}", f"downpour --staleness-bound 0 {_LEVELS}")  # fmt: skip
STRATEGIES = ("sync", *(f"{words} --lr-scaling sqrt --warmup-epochs 0" for words in _PARTING))


class _Task(NamedTuple):
    """A compiled model, and the rows of a batch."""

    model: Any
    batch_size: int


def events_task(x: np.ndarray) -> _Task:
    """A classifier of events, by their features."""
    import keras

    layers = keras.layers
    normalised = layers.Normalization()
    normalised.adapt(x)
    hidden = [layers.Dense(200, "relu") for _ in range(3)]
    model = keras.Sequential(
        [keras.Input(x.shape[1:]), normalised, *hidden, layers.Dense(1, "sigmoid")]
    )
    score = keras.metrics.AUC(name="score")
    model.compile(keras.optimizers.Adam(3e-4), "binary_crossentropy", metrics=[score])
    return _Task(model, 512)


def digits_task(x: np.ndarray) -> _Task:
    """A CNN for images of digits."""
    import keras

    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input(x.shape[1:]),
            layers.Rescaling(1 / 255),
            layers.Reshape((*x.shape[1:3], 1)),
            layers.Conv2D(16, 3, strides=2, activation="relu"),
            layers.Conv2D(32, 3, strides=2, activation="relu"),
            layers.Flatten(),
            layers.Dense(100, activation="relu"),
            layers.Dense(10),
        ]
    )
    return _Task(_classifying(model), 128)


def text_task(x: np.ndarray) -> _Task:
    """An LSTM that predicts the next letters of texts.

    Without an embedding, whose gradients ranks add up where they are compressed: Adam takes them
    otherwise then, which is no effect of rounding.
    """
    import keras

    layers = keras.layers
    letters = int(x.max()) + 1
    one_hot = layers.CategoryEncoding(letters, "one_hot")
    hidden = [layers.Reshape((*x.shape[1:], 1)), one_hot, layers.LSTM(96, return_sequences=True)]
    model = keras.Sequential([keras.Input(x.shape[1:]), *hidden, layers.Dense(letters)])
    return _Task(_classifying(model), 64)


def _classifying(model: Any) -> Any:
    """*model* with a loss and a metric for classes."""
    import keras

    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    score = keras.metrics.SparseCategoricalAccuracy(name="score")
    model.compile(keras.optimizers.Adam(1e-3), loss, metrics=[score])
    return model


def work(path: Path, seed: int, rows: int, epochs: int) -> None:
    """Train on every rank, and note the held-out metric."""
    import keras

    with h5py.File(path) as file:
        x, y = file["x_train"][:rows], file["y_train"][:rows]
        held_out = file["x_test"][:20_000], file["y_test"][:20_000]
    keras.utils.set_random_seed(seed)
    is_text = x.dtype.kind == "u" and x.ndim == 2
    task = (text_task if is_text else digits_task if x.ndim == 3 else events_task)(x)
    task.model.fit(
        x, y, validation_data=held_out, validation_freq=epochs, validation_batch_size=2000,
        epochs=epochs, batch_size=task.batch_size, verbose=0,
    )  # fmt: skip


def run(words: list[str], *, ranks: int, script: list[str]) -> dict[str, Any]:
    """One training with the strategy that *words* begin with."""
    summary, _ = matex_run("-n", str(ranks), "--strategy", *words, *script)
    kept = ("wall_s", "step_s", "messages_per_step", "bytes_per_step", "staleness")
    metrics = summary["metrics"]
    return {
        "score": metrics["val_score"],
        "loss": metrics["loss"],
        **{name: summary[name] for name in kept},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--strategies", default=";".join(STRATEGIES))
    parser.add_argument("--seeds", default="1")
    parser.add_argument("--ranks", default="4", help="numbers of ranks, by commas")
    parser.add_argument("--rows", type=int, default=45_000, help="to train on")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--seed", type=int, help=argparse.SUPPRESS)  # what a rank is given
    arguments = parser.parse_args()
    if arguments.seed is not None:
        work(arguments.data, arguments.seed, arguments.rows, arguments.epochs)
        return
    end_tidily()
    strategies, seeds = arguments.strategies.split(";"), arguments.seeds.split(",")
    numbers = [int(number) for number in arguments.ranks.split(",")]
    trainings = [(strategies[0], numbers[0])]
    trainings += [(strategy, ranks) for ranks in numbers for strategy in strategies[1:]]
    less: dict[tuple[str, int], list[float]] = {training: [] for training in trainings}
    more: dict[tuple[str, int], list[float]] = {training: [] for training in trainings}
    for seed in seeds:
        script = [str(Path(__file__).resolve()), str(arguments.data.resolve()), "--seed", seed]
        script += ["--rows", str(arguments.rows), "--epochs", str(arguments.epochs)]
        first: dict[str, Any] | None = None
        for strategy, ranks in trainings:
            found = run(shlex.split(strategy), ranks=ranks, script=script)
            first = first or found
            behind, above = first["score"] - found["score"], found["loss"] / first["loss"] - 1
            less[strategy, ranks].append(behind)
            more[strategy, ranks].append(above)
            found |= {"strategy": strategy, "ranks": ranks, "seed": int(seed)}
            found |= {"less": behind, "more_loss": above}
            print(json.dumps(found), flush=True)
    for (strategy, ranks), values in less.items():
        each = " ".join(f"{value:+.4f}" for value in values)
        middle = f"{statistics.median(values):+.4f}"
        loss = f"{statistics.median(more[strategy, ranks]):+.2%}"
        print(f"{ranks:3} {strategy:98} {each}  median {middle}, of the loss {loss}", flush=True)


if __name__ == "__main__":
    main()
