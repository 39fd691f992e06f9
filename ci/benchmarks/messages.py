"""Messages, bytes and time of a step of sync and gossip, by the number of ranks, as JSON lines.

    python -m ci.benchmarks.messages [--ranks 4 8 16 32 64] [--values 25000] [--steps 60]

Ranks without TensorFlow move a vector of float32: with ``sync`` by the sum of all vectors in each
step, with ``gossip`` by the collective that every step has, and a swap with a partner. A line a
launch: ``messages`` and ``bytes`` are what a rank gives to the point-to-point layer of Open MPI in
a step, the messages inside collectives included (mean over the ranks; ``most_messages`` of one).
They are counted by Open MPI's component ``monitoring``, which writes nothing under ULFM, so the
ranks have none; what starting and ending take is subtracted by a second launch with fewer steps.
``step_ms`` is the median step of rank 0. Then a table.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import ft
from ci.chaos.strategies.rank import Vector, strategy_of
from ci.jobs import ONE_THREAD, environment, on_ranks

WAYS = ("sync", "gossip")
#: What the collective of a step carries beside gradients: the header of the exchange.
HEADER = 9
FEWER, LIMIT_S = 10, 300.0
_SENT = re.compile(r"^[EI]\t\d+\t\d+\t(\d+) bytes\t(\d+) msgs sent", re.MULTILINE)


def rank(way: str, values: int, steps: int, folder: Path) -> None:
    """One rank of a launch; the first one leaves the times of its steps in *folder*."""
    communicator = ft.Communicator.start()
    vector = Vector(values)
    strategy = strategy_of(way, communicator, vector, epochs=1)
    own = np.ones(HEADER + values * strategy.sums_gradients, np.float32)
    total = np.empty_like(own)

    def valid() -> bool:
        return bool(total[0] == communicator.world.size)

    times = []
    with ft.shielded():
        communicator.barrier()
        strategy.epoch_begins(0)
        for step in range(steps):
            began = time.perf_counter()
            strategy.before_step(step)
            communicator.allreduce(own, total, valid=valid)
            strategy.after_step(step)
            times.append(time.perf_counter() - began)
        communicator.barrier()
        if communicator.world.is_leader:
            (folder / "times.json").write_text(json.dumps(times))
        communicator.leave()


def launched(ranks: int, way: str, values: int, steps: int) -> tuple[list[tuple[int, int]], float]:
    """Messages and bytes of each rank of a launch, and the median seconds of a step.

    Raises:
        RuntimeError: a rank left no counts.
    """
    with tempfile.TemporaryDirectory(prefix="mx-") as name:
        counts = ("--mca", "pml_monitoring_enable", "2", "--mca", "pml_monitoring_enable_output",
                  "3", "--mca", "pml_monitoring_filename", f"{name}/sent")  # fmt: skip
        words = [way, str(values), str(steps), name]
        done = subprocess.run(
            [*on_ranks(ranks, *counts, ulfm=False), sys.executable, "-m", "ci.benchmarks.messages",
             "--rank", *words],
            env=environment(**ONE_THREAD, TMPDIR=name), cwd=name,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S, check=False,
        )  # fmt: skip
        files = sorted(Path(name).glob("sent*.prof"))
        if len(files) != ranks:
            raise RuntimeError(f"{len(files)} of {ranks} ranks left counts: {done.stderr}")
        sent = [_SENT.findall(path.read_text()) for path in files]
        times = json.loads((Path(name) / "times.json").read_text())
    each = [(sum(int(n) for _, n in own), sum(int(b) for b, _ in own)) for own in sent]
    return each, statistics.median(times)


def measured(ranks: int, way: str, values: int, steps: int) -> dict[str, Any]:
    """The figures of one way and number of ranks."""
    few, _ = launched(ranks, way, values, FEWER)
    many, step_s = launched(ranks, way, values, steps)
    own = (np.array(many) - np.array(few)) / (steps - FEWER)
    return {
        "way": way,
        "ranks": ranks,
        "messages": round(own[:, 0].mean(), 2),
        "most_messages": round(own[:, 0].max(), 2),
        "bytes": round(own[:, 1].mean()),
        "step_ms": round(1e3 * step_s, 2),
        "load": round(os.getloadavg()[0], 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--ranks", type=int, nargs="*", default=[4, 8, 16, 32, 64])
    parser.add_argument("--values", type=int, default=25_000)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--rank", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.rank is not None:
        way, values, steps, folder = arguments.rank
        rank(way, int(values), int(steps), Path(folder))
        return
    found = []
    for ranks in arguments.ranks:
        for way in WAYS:
            found.append(measured(ranks, way, arguments.values, arguments.steps))
            print(json.dumps(found[-1]), flush=True)
    for one in found:
        counts = "{ranks:4} {way:8} {messages:8} messages {bytes:9} bytes".format(**one)
        print(f"{counts} {one['step_ms']:9} ms")


if __name__ == "__main__":
    main()
