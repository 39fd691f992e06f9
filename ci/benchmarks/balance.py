"""The time of a step with --balance and a slow rank: one JSON object.

    python -m ci.benchmarks.balance [--ranks 3] [--factor 3] [--steps 120]

Every rank computes four times as long as it would, the last one *factor* times as long as the
others (the fault ``slow``, which sleeps: so a few cores are enough for the ranks). ``alike_ms``
is the median step when all are alike, ``equal_ms`` with a slow rank and equal shares,
``balanced_ms`` with shares by speed; ``ratio`` is that to the ideal, in which every rank computes
all the time; ``shares`` are those of the last change. ``losses`` must be equal.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from ci.benchmarks.one_run import matex_run
from ci.network.emulated import end_tidily

BATCH, BASE = 1536, 4


def work(steps: int) -> None:
    """Train on every rank, which computes artificially long."""
    import keras
    import numpy as np

    keras.utils.set_random_seed(1)
    x = np.random.default_rng(1).normal(size=(BATCH * steps // 4, 28)).astype(np.float32)
    hidden = [keras.layers.Dense(1000, "relu") for _ in range(2)]
    model = keras.Sequential([keras.Input((28,)), *hidden, keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.01), "mse")
    model.fit(x, x[:, :1] * x[:, 1:2], epochs=4, batch_size=BATCH, verbose=0)


def run(options: list[str], factors: list[float], steps: int) -> dict[str, Any]:
    """One training of ranks that are as slow as *factors* say."""
    words = ["-n", str(len(factors)), "--threads", "1", *options]
    for rank, factor in enumerate(factors):
        words += ["--inject", f"slow:rank={rank},step=0,factor={factor:g},steps={steps}"]
    script = [str(Path(__file__).resolve()), "--as-a-rank", "--steps", str(steps)]
    summary, events = matex_run(*words, *script)
    shares = [event["shares"] for event in events if event["event"] == "balance"]
    loss = summary["metrics"]["loss"]
    return {"ms": 1e3 * summary["step_s"], "loss": loss, "shares": shares[-1:]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--ranks", type=int, default=3)
    parser.add_argument("--factor", type=float, default=3.0)
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--as-a-rank", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.as_a_rank:
        work(arguments.steps)
        return
    end_tidily()
    same = [float(BASE)] * arguments.ranks
    slow = [*same[:-1], BASE * arguments.factor]
    alike = run([], same, arguments.steps)
    equal = run([], slow, arguments.steps)
    balanced = run(["--balance"], slow, arguments.steps)
    ideal = alike["ms"] * len(slow) / (len(slow) - 1 + 1 / arguments.factor)
    found = {
        "alike_ms": alike["ms"],
        "equal_ms": equal["ms"],
        "balanced_ms": balanced["ms"],
        "ideal_ms": ideal,
        "ratio": balanced["ms"] / ideal,
        "shares": balanced["shares"],
        "losses": [alike["loss"], equal["loss"], balanced["loss"]],
    }
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
