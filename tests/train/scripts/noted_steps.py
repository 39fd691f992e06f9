"""The training of ci/network/partitions.py: each rank notes each step it made, and with whom.

    python tests/train/scripts/noted_steps.py FOLDER STEPS PAUSE_S

A line: seconds since the epoch, the start of the ranks, the rank, its step, the members.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import keras
import numpy as np

FOLDER, STEPS, PAUSE_S = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
ROWS, BATCH = 480, 24


class Notes(keras.callbacks.Callback):
    """Write a line after each step, on every rank."""

    def on_train_begin(self, logs: dict[str, float] | None = None) -> None:
        import matex

        path = FOLDER / f"{os.environ['MATEX_JOB']}-{matex.rank()}-{os.getpid()}.jsonl"
        self.file = path.open("w", buffering=1)

    def on_train_batch_end(self, batch: int, logs: dict[str, float] | None = None) -> None:
        from matex import session

        run = session.current.run
        line = {
            "time": time.time(),
            "start": os.environ["MATEX_JOB"],
            "rank": run.communicator.world.rank,
            "step": run.step,
            "members": run.communicator.world.ranks,
        }
        self.file.write(json.dumps(line) + "\n")
        time.sleep(PAUSE_S)


keras.utils.set_random_seed(7)
x = np.random.default_rng(1).normal(size=(ROWS, 8)).astype("float32")
y = (x[:, 0] > 0).astype("float32")
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(4), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(
    x, y, batch_size=BATCH, epochs=STEPS * BATCH // ROWS, verbose=0, shuffle=False,
    callbacks=[Notes()],
)  # fmt: skip
