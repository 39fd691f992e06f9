"""What a whole model.fit costs: one JSON object a line and model.

    python -m ci.benchmarks.fit [--ranks 2] [--rounds 6] [--model mlp|cnn]...

Two epochs of ``model.fit``, metrics and a callback included, by plain Keras in one
process on one core, and by ``matex run`` on ranks that each have a core and the
same batch: ``ratio = matex_ms / single_ms``, medians of milliseconds a step. Both
are started once and take turns.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from ci.benchmarks import turns
from ci.jobs import environment

MODELS = ("mlp", "cnn")
SAMPLES = {"mlp": 256 * 120, "cnn": 64 * 12}  # of one rank
EPOCHS = 2


def work(name: str, ranks: int, rounds: int, folder: Path, who: str) -> None:
    """Make a fit in each of this program's turns; its figure is milliseconds a step."""
    import keras
    import numpy as np

    from ci.benchmarks import step

    model, x, y, batch = step.build(name)
    metric = keras.metrics.AUC() if name == "mlp" else "accuracy"
    model.compile(model.optimizer, model.loss, metrics=[metric])
    samples = SAMPLES[name] * ranks
    repeats = -(-samples // len(x))
    x = np.concatenate([x] * repeats)[:samples]
    y = np.concatenate([y] * repeats)[:samples]

    def fit() -> float:
        started = time.perf_counter()
        model.fit(
            x, y, batch_size=batch * ranks, epochs=EPOCHS, verbose=0,
            callbacks=[keras.callbacks.CSVLogger(folder / f"{who}.csv")],
        )  # fmt: skip
        return (time.perf_counter() - started) * 1e3 / (EPOCHS * samples / (batch * ranks))

    turns.wait_for_turns(folder, who, rounds, fit)


def compare(name: str, ranks: int, rounds: int) -> dict[str, Any]:
    """Start both, and let them take turns; a round before the first traces, and does not count."""
    rounds += 1
    here = [str(Path(__file__).resolve()), "--model", name, "--rounds", str(rounds)]
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
            on_one_core="single",
        )
    medians = {who: statistics.median(measured[1:]) for who, measured in times.items()}
    ratio = medians["matex"] / medians["single"]
    return {"model": name, **{f"{k}_ms": round(v, 4) for k, v in medians.items()}, "ratio": ratio}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", choices=MODELS, action="append", help="default: all")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--as", dest="role", choices=("parent", "single", "matex"))
    parser.add_argument("--folder", type=Path)
    arguments = parser.parse_args()
    names = arguments.model or MODELS
    if arguments.folder is not None:
        ranks = arguments.ranks if arguments.role == "matex" else 1
        work(names[0], ranks, arguments.rounds, arguments.folder, arguments.role)
        return
    for name in names:
        print(json.dumps(compare(name, arguments.ranks, arguments.rounds)), flush=True)


if __name__ == "__main__":
    main()
