"""The time of a whole model.fit: one JSON object a line and model.

    python -m ci.benchmarks.fit [--ranks 2] [--rounds 6] [--model mlp|cnn]... [--against DIR]
                                [--with "--deterministic --virtual 8"] [--pipeline]

Two epochs of ``model.fit``, metrics and a callback included, by plain Keras in one
process on one core, and by ``matex run`` on ranks that each have a core and the
same batch: ``ratio = matex_ms / single_ms``, medians of milliseconds a step. Both
are started once and take turns.

With ``--against DIR`` the matex of another checkout, which has an environment of its own, stands in
place of plain Keras: ``ratio`` is the median over rounds of ``matex_ms / other_ms``, and
``half_of_rounds`` the interval that the middle half of the rounds lies in. ``--with "OPTIONS"`` are
further options of ``matex run``; without ``--against`` a run without them is the other. With
``--pipeline`` the data are a tf.data pipeline, not arrays.
"""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from ci.benchmarks import turns
from ci.jobs import ROOT, environment

MODELS = ("mlp", "cnn")
SAMPLES = {"mlp": 256 * 120, "cnn": 64 * 36}  # of one rank
EPOCHS = 2


def work(name: str, ranks: int, rounds: int, folder: Path, who: str, *, pipeline: bool) -> None:
    """Make a fit in each of this program's turns; its figure is milliseconds a step."""
    import keras
    import numpy as np
    import tensorflow as tf

    from ci.benchmarks import models

    model, x, y, batch = models.build(name)
    metric = keras.metrics.AUC() if name == "mlp" else "accuracy"
    model.compile(model.optimizer, model.loss, metrics=[metric])
    samples = SAMPLES[name] * ranks
    repeats = -(-samples // len(x))
    x = np.concatenate([x] * repeats)[:samples]
    y = np.concatenate([y] * repeats)[:samples]

    data: dict[str, Any] = {"x": x, "y": y, "batch_size": batch * ranks}
    if pipeline:
        data = {"x": tf.data.Dataset.from_tensor_slices((x, y)).batch(batch * ranks)}

    def fit() -> float:
        started = time.perf_counter()
        model.fit(
            **data, epochs=EPOCHS, verbose=0,
            callbacks=[keras.callbacks.CSVLogger(folder / f"{who}.csv")],
        )  # fmt: skip
        return (time.perf_counter() - started) * 1e3 / (EPOCHS * samples / (batch * ranks))

    turns.wait_for_turns(folder, who, rounds, fit)


def compare(name: str, ranks: int, rounds: int, given: list[str]) -> dict[str, Any]:
    """Start both, and let them take turns; a round before the first traces, and does not count.

    Args:
        given: options of this program for its parts.
    """
    rounds += 1
    here = [str(Path(__file__).resolve()), "--model", name, "--rounds", str(rounds), *given]
    with tempfile.TemporaryDirectory(prefix="bench-") as path:
        matex = [sys.executable, "-m", "matex", "run", "-n", str(ranks), "--report", path]
        times = turns.take_turns(
            {
                "single": (
                    [sys.executable, *here, "--as", "single", "--folder", path],
                    environment(**turns.ONE_THREAD),
                ),
                "matex": (
                    [*matex, *here, "--ranks", str(ranks), "--as", "matex", "--folder", path],
                    environment(),
                ),
            },
            rounds=rounds,
            folder=Path(path),
            on_one_core=["single"],
        )
    medians = {who: statistics.median(measured[1:]) for who, measured in times.items()}
    ratio = medians["matex"] / medians["single"]
    return {"model": name, **{f"{k}_ms": round(v, 4) for k, v in medians.items()}, "ratio": ratio}


def compare_checkouts(
    name: str, ranks: int, rounds: int, checkout: Path, options: list[str], given: list[str]
) -> dict[str, Any]:
    """Start the fit of this checkout, and that of another, and let them take turns.

    Args:
        options: further options of this checkout's run.
        given: options of this program for its parts.
    """
    rounds += 1
    here = [str(Path(__file__).resolve()), "--model", name, "--rounds", str(rounds), *given]

    def command(place: Path, path: str, who: str, *more: str) -> list[str]:
        # A module is looked for where its program starts, before PYTHONPATH.
        run = ["env", "--chdir", str(place), str(place / ".venv" / "bin" / "python"), "-m", "matex"]
        run += ["run", "-n", str(ranks), "--report", f"{path}/{who}"]
        return [*run, *more, *here, "--ranks", str(ranks), "--as", who, "--folder", path]

    with tempfile.TemporaryDirectory(prefix="bench-") as path:
        times = turns.take_turns(
            {
                "other": (
                    command(checkout, path, "other"),
                    environment(PYTHONPATH=str(checkout)),
                ),
                "matex": (command(ROOT, path, "matex", *options), environment()),
            },
            rounds=rounds,
            folder=Path(path),
        )
    medians = {who: statistics.median(measured[1:]) for who, measured in times.items()}
    pairs = zip(times["matex"][1:], times["other"][1:], strict=True)
    ratios = [own / other for own, other in pairs]
    low, middle, high = statistics.quantiles(ratios, n=4)
    return {
        "model": name,
        **{f"{who}_ms": round(median, 4) for who, median in medians.items()},
        "ratio": round(middle, 4),
        "half_of_rounds": [round(low, 4), round(high, 4)],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", choices=MODELS, action="append", help="default: all")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--as", dest="role", choices=("parent", "single", "matex", "other"))
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--against", type=Path, metavar="DIR", help="another checkout, installed")
    parser.add_argument("--with", dest="options", default="", help="further options of matex run")
    parser.add_argument("--pipeline", action="store_true", help="data of tf.data, not arrays")
    arguments = parser.parse_args()
    given = ["--pipeline"] * arguments.pipeline
    names = arguments.model or MODELS
    if arguments.folder is not None:
        ranks = 1 if arguments.role == "single" else arguments.ranks
        rounds, pipeline = arguments.rounds, arguments.pipeline
        work(names[0], ranks, rounds, arguments.folder, arguments.role, pipeline=pipeline)
        return
    for name in names:
        options = shlex.split(arguments.options)
        if arguments.against is None and not options:
            result = compare(name, arguments.ranks, arguments.rounds, given)
        else:
            other = (arguments.against or ROOT).resolve()
            result = compare_checkouts(
                name, arguments.ranks, arguments.rounds, other, options, given
            )
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
