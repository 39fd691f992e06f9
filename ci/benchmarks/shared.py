"""Speed of ranks at steps that are no means over rows: one JSON object a line and model.

    python -m ci.benchmarks.shared [--ranks 2] [--rounds 5] [--model NAME]...

Masked and summed losses, several optimizers and a custom loop: an epoch by plain Keras in one
process on one core, and by ``matex run`` on ranks that have a core each, of the same batches.
``ratio = matex_ms / single_ms``, medians of milliseconds a step. ``least`` is the same ratio of
plain Keras with a rank's share of each batch: what no exchange could be faster than. Contrastive
losses compare rows of the whole batch, which every rank computes: their ratio is what that costs.
All are started once and take turns.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ci.benchmarks import turns
from ci.jobs import environment

FITTED = ("tagging", "translation", "sums")
STEPPING = ("gan", "wgan-gp", "vae", "vae-loop")
WHOLE = ("contrastive", "contrastive-loop")
MODELS = (*FITTED, *STEPPING, *WHOLE)
BATCH, STEPS, LENGTH, WORDS, TAGS = 128, 12, 24, 1000, 12


def build(name: str, batch: int) -> tuple[Any, Any, Any]:
    """A compiled model, its inputs and its targets."""
    import keras
    import numpy as np
    from keras import layers

    keras.utils.set_random_seed(1)
    generator = np.random.default_rng(1)
    shape = (batch * STEPS, LENGTH)
    text = generator.integers(1, WORDS, shape).astype("int32")
    text[np.arange(LENGTH) >= generator.integers(4, LENGTH + 1, (len(text), 1))] = 0
    inputs = keras.Input((LENGTH,), dtype="int32")
    hidden = layers.Embedding(WORDS, 64, mask_zero=True)(inputs)
    loss, labels = "sparse_categorical_crossentropy", text % TAGS
    if name == "tagging":
        hidden = layers.Bidirectional(layers.LSTM(96, return_sequences=True))(hidden)
        model = keras.Model(inputs, layers.Dense(TAGS, "softmax")(hidden))
        model.compile("sgd", loss, metrics=["accuracy"])
        return model, text, labels
    if name == "translation":
        target = keras.Input((LENGTH,), dtype="int32")
        coded = layers.LSTM(96, return_sequences=True)(hidden)
        decoded = layers.Embedding(WORDS, 64, mask_zero=True)(target)
        decoded = layers.LSTM(96, return_sequences=True)(decoded)
        attended = layers.MultiHeadAttention(4, 24)(decoded, coded)
        hidden = layers.LayerNormalization()(attended)
        model = keras.Model([inputs, target], layers.Dense(WORDS, "softmax")(hidden))
        model.compile("sgd", loss, metrics=["accuracy"])
        return model, (text, np.roll(text, 1, 1)), text
    hidden = layers.LSTM(128, return_sequences=True)(hidden)
    outputs = [layers.Dense(TAGS, "softmax")(hidden), layers.Dense(1)(hidden)]
    model = keras.Model(inputs, outputs)
    model.compile("sgd", [loss, keras.losses.MeanSquaredError("sum")], loss_weights=[1, 1e-4])
    return model, text, (labels, labels[..., None].astype("float32"))


def epoch(name: str, batch: int) -> Callable[[], object]:
    """Function that makes STEPS steps of a model."""
    if name in (*STEPPING, *WHOLE):
        from ci.benchmarks import stepping

        return stepping.EPOCHS[name](batch, STEPS)
    model, x, y = build(name, batch)
    return lambda: model.fit(x, y, batch_size=batch, shuffle=False, verbose=0)


def work(name: str, batch: int, rounds: int, folder: Path, who: str) -> None:
    """Make an epoch in each of this program's turns; its figure is milliseconds a step."""
    fit = epoch(name, batch)

    def timed() -> float:
        started = time.perf_counter()
        fit()
        return (time.perf_counter() - started) * 1e3 / STEPS

    turns.wait_for_turns(folder, who, rounds, timed)


def compare(name: str, batch: int, ranks: int, rounds: int) -> dict[str, Any]:
    """Start all, and let them take turns; two rounds before the first trace, and do not count."""
    rounds += 2
    here = [str(Path(__file__).resolve()), "--model", name, "--rounds", str(rounds)]
    with tempfile.TemporaryDirectory(prefix="bench-") as path:
        here += ["--folder", path]
        matex = [sys.executable, "-m", "matex", "run", "-n", str(ranks), "--report", path]
        whole, share = (["--batch", str(rows)] for rows in (batch, batch // ranks))
        alone = environment(**turns.ONE_THREAD)
        times = turns.take_turns(
            {
                "single": ([sys.executable, *here, *whole, "--as", "single"], alone),
                "share": ([sys.executable, *here, *share, "--as", "share"], alone),
                "matex": ([*matex, *here, *whole, "--as", "matex"], environment()),
            },
            rounds=rounds,
            folder=Path(path),
            on_one_core=("single", "share"),
        )
    single, least, together = (times[who][2:] for who in ("single", "share", "matex"))
    ratios = sorted(mine / other for mine, other in zip(together, single, strict=True))
    return {
        "model": name,
        "ranks": ranks,
        "batch": batch,
        "single_ms": round(statistics.median(single), 1),
        "matex_ms": round(statistics.median(together), 1),
        "ratio": round(statistics.median(ratios), 3),
        "least": round(statistics.median(least) / statistics.median(single), 3),
        "ratios": [round(ratio, 3) for ratio in ratios],
        "load": round(os.getloadavg()[0], 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch", type=int, default=BATCH, help="rows of all ranks")
    parser.add_argument("--model", action="append", choices=MODELS)
    parser.add_argument("--as", dest="who")
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    names = given.model or MODELS
    if given.who is not None:
        work(names[0], given.batch, given.rounds, given.folder, given.who)
        return
    for name in names:
        print(json.dumps(compare(name, given.batch, given.ranks, given.rounds)), flush=True)


if __name__ == "__main__":
    main()
