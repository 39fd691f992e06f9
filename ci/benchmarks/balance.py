"""The time of a step with --balance and a slow or a noisy rank: one JSON object.

    python -m ci.benchmarks.balance [--ranks 3] [--factor 3] [--steps 120]
    python -m ci.benchmarks.balance --noise .25 [--hold 1] [--rounds 3] [--ranks 3] [--steps 120]

Every rank computes four times as long as it would, the last one *factor* times as long as the
others (the fault ``slow``, which sleeps: so a few cores are enough for the ranks). ``alike_ms``
is the median step when all are alike, ``equal_ms`` with a slow rank and equal shares,
``balanced_ms`` with shares by speed; ``ratio`` is that to the ideal, in which every rank computes
all the time; ``shares`` are those of the last change. ``losses`` must be equal.

With ``--noise`` ranks only sleep ``ROW_S`` for each row beside a small network, so that the load of
the machine counts less. The last rank is as fast as the others in the mean, and what it takes for a
row varies from step to step, or each ``--hold`` steps, by a normal distribution with this
coefficient of variation. Figures are then means over the steps after the first ``SETTLED``, and
medians over rounds; ``expected_ms`` is what equal shares should take by the numbers drawn, and
``ideal_ms`` is for shares of somebody who knows each of them beforehand. ``changes`` is how often
shares were changed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np

from ci.benchmarks.one_run import matex_run
from ci.network.emulated import end_tidily

BATCH, BASE = 1536, 4
SETTLED, ROW_S = 30, 2e-4


def work(steps: int) -> None:
    """Train on every rank, which computes artificially long."""
    import keras

    keras.utils.set_random_seed(1)
    x = np.random.default_rng(1).normal(size=(BATCH * steps // 4, 28)).astype(np.float32)
    hidden = [keras.layers.Dense(1000, "relu") for _ in range(2)]
    model = keras.Sequential([keras.Input((28,)), *hidden, keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.01), "mse")
    model.fit(x, x[:, :1] * x[:, 1:2], epochs=4, batch_size=BATCH, verbose=0)


def work_noisily(steps: int, noise: float, hold: int, seed: int) -> None:
    """Train on every rank, which sleeps for each of its rows, the last one unevenly."""
    import keras
    import tensorflow as tf

    import matex

    noisy = matex.rank() == matex.size() - 1
    times = drawn(noise if noisy else 0.0, hold, seed, steps)
    optimizer = keras.optimizers.SGD(0.01)

    def sleep(rows: np.ndarray, step: np.ndarray) -> None:
        time.sleep(ROW_S * int(rows) * times[step])

    class Sleeping(keras.layers.Layer):  # type: ignore[misc]
        def call(self, x: Any) -> Any:
            facts = [tf.shape(x)[0], tf.convert_to_tensor(optimizer.iterations)]
            with tf.control_dependencies([tf.numpy_function(sleep, facts, [])]):
                return tf.identity(x)

    keras.utils.set_random_seed(1)
    x = np.random.default_rng(1).normal(size=(BATCH * steps // 4, 28)).astype(np.float32)
    layers = [Sleeping(), keras.layers.Dense(64, "relu"), keras.layers.Dense(1)]
    model = keras.Sequential([keras.Input((28,)), *layers])
    model.compile(optimizer, "mse", jit_compile=False)
    model.fit(x, x[:, :1] * x[:, 1:2], epochs=4, batch_size=BATCH, verbose=0)


def run(options: list[str], ranks: int, steps: int, *words: str) -> dict[str, Any]:
    """One training with these *options*, and *words* for its ranks."""
    script = [str(Path(__file__).resolve()), "--as-a-rank", "--steps", str(steps), *words]
    summary, events = matex_run("-n", str(ranks), "--threads", "1", *options, *script)
    shares = [event["shares"] for event in events if event["event"] == "balance"]
    settled = [e for e in events if e["event"] == "progress" and e["step"] > SETTLED + e["steps"]]
    seconds = sum(event["steps"] * event["step_s"] for event in settled)
    return {
        "ms": 1e3 * summary["step_s"],
        "mean_ms": 1e3 * seconds / sum(event["steps"] for event in settled),
        "loss": summary["metrics"]["loss"],
        "shares": shares,
    }


def slowed(factors: list[float], steps: int) -> list[str]:
    """Options by which ranks are as slow as *factors* say."""
    return [
        word
        for rank, factor in enumerate(factors)
        for word in ("--inject", f"slow:rank={rank},step=0,factor={factor:g},steps={steps}")
    ]


def of_a_slow_rank(ranks: int, factor: float, steps: int) -> dict[str, Any]:
    """The figures with a rank that is slower by *factor*."""
    same = [float(BASE)] * ranks
    slow = slowed([*same[:-1], BASE * factor], steps)
    alike = run(slowed(same, steps), ranks, steps)
    equal = run(slow, ranks, steps)
    balanced = run(["--balance", *slow], ranks, steps)
    ideal = alike["ms"] * ranks / (ranks - 1 + 1 / factor)
    return {
        "alike_ms": alike["ms"],
        "equal_ms": equal["ms"],
        "balanced_ms": balanced["ms"],
        "ideal_ms": ideal,
        "ratio": balanced["ms"] / ideal,
        "shares": balanced["shares"][-1:],
        "losses": [alike["loss"], equal["loss"], balanced["loss"]],
    }


def drawn(noise: float, hold: int, seed: int, steps: int) -> np.ndarray:
    """The times that the noisy rank takes for a row in each step, 1 in the mean."""
    times = np.random.default_rng(seed).normal(1, noise, -(-steps // hold))
    return np.repeat(np.maximum(times, 0.1), hold)[:steps]


def of_a_noisy_rank(arguments: argparse.Namespace) -> dict[str, Any]:
    """The figures with a rank whose speed varies."""
    ranks, steps, noise = arguments.ranks, arguments.steps, arguments.noise
    drawing = ["--hold", str(arguments.hold), "--seed", str(arguments.seed), "--noise"]
    ways = {"alike": ([], 1e-9), "equal": ([], noise), "balanced": (["--balance"], noise)}
    made: dict[str, list[dict[str, Any]]] = {way: [] for way in ways}
    for _ in range(arguments.rounds):
        for way, (options, much) in ways.items():
            made[way].append(run(options, ranks, steps, *drawing, str(much)))
    ms = {way: statistics.median(one["mean_ms"] for one in each) for way, each in made.items()}
    times = drawn(noise, arguments.hold, arguments.seed, steps)[SETTLED:]
    ideal = ms["alike"] * statistics.fmean(ranks / (ranks - 1 + 1 / times))
    return {
        **{f"{way}_ms": value for way, value in ms.items()},
        "expected_ms": ms["alike"] * statistics.fmean(np.maximum(times, 1)),
        "ideal_ms": ideal,
        "ratio": ms["balanced"] / ideal,
        "changes": [len(one["shares"]) for one in made["balanced"]],
        "shares": [share for one in made["balanced"] for share in one["shares"][-1:]],
        "losses": sorted({one["loss"] for each in made.values() for one in each}),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--ranks", type=int, default=3)
    parser.add_argument("--factor", type=float, default=3.0)
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--noise", type=float, default=0.0, help="coefficient of variation")
    parser.add_argument("--hold", type=int, default=1, help="steps between two changes of it")
    parser.add_argument("--rounds", type=int, default=3, help="of which medians are taken")
    parser.add_argument("--seed", type=int, default=1, help="of the noise")
    parser.add_argument("--as-a-rank", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    ranks, steps = arguments.ranks, arguments.steps
    if arguments.as_a_rank:
        if arguments.noise:
            work_noisily(steps, arguments.noise, arguments.hold, arguments.seed)
        else:
            work(steps)
        return
    end_tidily()
    if arguments.noise:
        found = of_a_noisy_rank(arguments)
    else:
        found = of_a_slow_rank(ranks, arguments.factor, steps)
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
