"""The CNN of ``ci.benchmarks.network`` under Horovod, in an environment of Horovod's own.

It runs on each rank of an ``mpiexec`` and gets the number of steps; rank 0 prints one JSON object:
``step_s``, the median of its steps, and ``steps``, the number of all that were made.
"""

from __future__ import annotations

import itertools
import json
import os
import statistics
import sys
import time
from typing import Any

import horovod.tensorflow.keras as hvd
import tensorflow as tf

from ci.benchmarks import models


class Clock(tf.keras.callbacks.Callback):
    """Times at which batches ended."""

    def __init__(self) -> None:
        super().__init__()
        self.ends: list[float] = []

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.ends.append(time.perf_counter())


def main() -> None:
    steps = int(sys.argv[1])
    tf.config.threading.set_intra_op_parallelism_threads(1)
    hvd.init()
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[hvd.rank() % len(cores)]})
    model, x, y, batch = models.build("cnn")
    model.compile(hvd.DistributedOptimizer(model.optimizer), model.loss)
    rows = [n % len(x) for n in range(batch * steps)]
    options = {"batch_size": batch, "verbose": 0}
    first = [hvd.callbacks.BroadcastGlobalVariablesCallback(0)]
    model.fit(x[:batch], y[:batch], epochs=2, callbacks=first, **options)
    clock = Clock()
    model.fit(x[rows], y[rows], shuffle=False, callbacks=[clock], **options)
    if hvd.rank() == 0:
        times = [end - begin for begin, end in itertools.pairwise(clock.ends)]
        print(json.dumps({"step_s": statistics.median(times), "steps": steps + 2}), flush=True)


main()
