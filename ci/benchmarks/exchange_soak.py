"""Whether memory grows: many steps, many shrinks, one JSON object a line.

    matex run -n 22 --threads 1 ci/benchmarks/exchange_soak.py [--steps 20000] [--shrinks 20]

A small model trains; at equal distances the rank with the highest number ends itself
by SIGKILL. The leader prints its resident memory after each twentieth of the steps;
the last line says by how much it grew after the first tenth.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
from typing import Any

import keras
import numpy as np
import psutil


class Soak(keras.callbacks.Callback):  # type: ignore[misc]
    """Dies when it is this rank's turn, and notes the memory."""

    def __init__(self, steps: int, shrinks: int) -> None:
        super().__init__()
        import matex

        self._die_at = {
            matex.size() - 1 - number: (number + 1) * steps // (shrinks + 1)
            for number in range(shrinks)
        }.get(matex.rank())
        self._every = steps // 20
        self._step = 0
        self._memory: list[float] = []

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        import matex

        if self._step == self._die_at:
            os.kill(os.getpid(), signal.SIGKILL)
        self._step += 1
        if self._step % self._every == 0:
            self._memory.append(psutil.Process().memory_info().rss / 1e6)
            if matex.rank() == 0:
                now = {"step": self._step, "ranks": matex.size(), "rss_mb": self._memory[-1]}
                print(json.dumps(now), flush=True)

    def on_train_end(self, logs: Any = None) -> None:
        import matex

        if matex.rank() == 0:
            grown = self._memory[-1] - self._memory[1]
            print(json.dumps({"steps": self._step, "grown_mb": round(grown, 2)}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=20000)
    parser.add_argument("--shrinks", type=int, default=20)
    arguments = parser.parse_args()
    generator = np.random.default_rng(0)
    x = generator.normal(size=(100 * 64, 16)).astype("float32")
    y = (x[:, 0] > 0).astype("float32")
    model = keras.Sequential(
        [keras.Input((16,)), keras.layers.Dense(32, "relu"), keras.layers.Dense(1, "sigmoid")]
    )
    model.compile(keras.optimizers.SGD(0.01), "binary_crossentropy")
    model.fit(
        x, y, batch_size=64, epochs=arguments.steps // 100, verbose=0,
        callbacks=[Soak(arguments.steps, arguments.shrinks)],
    )  # fmt: skip


if __name__ == "__main__":
    main()
