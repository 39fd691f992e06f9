"""The time that one death costs the survivors in ft, by the number of ranks, as JSON lines.

    python -m ci.benchmarks.ft_scale [--ranks 8 16 32 64] [--times 3]

Ranks sum a small vector again and again, without TensorFlow, and one of them kills itself before an
operation. A line a launch: seconds from the kill until the last survivor has the result of that
operation (``recovery_s``), how many operations without a death take as long (``operations``; median
of those before the kill), and the memory of a rank that no other shares (``memory_mb``, median).
Then a line of medians for each number of ranks.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil

import ft
from ci.jobs import ONE_THREAD, environment, on_ranks

VALUES = 1000
OPERATIONS, DEADLY = 60, 40
LIMIT_S = 300.0
_FIGURES = ("recovery_s", "operations", "memory_mb")


def rank(folder: Path) -> None:
    """One rank of a launch; it leaves what it has seen in *folder*."""
    communicator = ft.Communicator.start()
    first = communicator.world.ranks
    mine, total = np.ones(VALUES), np.empty(VALUES)
    times: list[float] = []
    with ft.shielded():
        communicator.barrier()
        while len(times) < OPERATIONS:
            if len(times) == DEADLY and communicator.world.rank == first[-1]:
                note(folder, "death", time.monotonic())
                os.kill(os.getpid(), signal.SIGKILL)
            try:
                communicator.allreduce(mine, total)
            except ft.PeerFailure:
                if not communicator.recover().finished:
                    continue
            assert total[0] in (len(first), len(first) - 1), total[0]
            times.append(time.monotonic())
        memory = psutil.Process().memory_full_info().uss / 1e6
        note(folder, f"rank-{communicator.world.rank}", {"times": times, "memory": memory})
        communicator.leave()


def note(folder: Path, name: str, content: Any) -> None:
    """Leave *content* in *folder*."""
    (folder / f"{name}.json").write_text(json.dumps(content))


def measured(ranks: int) -> dict[str, float]:
    """The figures of one launch.

    Raises:
        RuntimeError: not all survivors came to their end.
    """
    with tempfile.TemporaryDirectory(prefix="mx-") as name:
        folder = Path(name)
        done = subprocess.run(
            [*on_ranks(ranks), sys.executable, "-m", "ci.benchmarks.ft_scale", "--rank", name],
            env=environment(**ONE_THREAD, TMPDIR=name),
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S, check=False,
        )  # fmt: skip
        left = [json.loads(path.read_text()) for path in folder.glob("rank-*.json")]
        if len(left) != ranks - 1:
            came = f"{len(left)} of {ranks - 1}"
            raise RuntimeError(f"{came} survivors came to the end: {done.stderr}")
        death = json.loads((folder / "death.json").read_text())
    recovery_s = max(one["times"][DEADLY] for one in left) - death
    operation_s = statistics.median(np.diff(left[0]["times"][:DEADLY]))
    return {
        "recovery_s": recovery_s,
        "operations": recovery_s / operation_s,
        "memory_mb": statistics.median(one["memory"] for one in left),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--ranks", type=int, nargs="*", default=[8, 16, 32, 64])
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--rank", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.rank is not None:
        rank(arguments.rank)
        return 0
    found: dict[int, list[dict[str, float]]] = {number: [] for number in arguments.ranks}
    for _ in range(arguments.times):
        for number in arguments.ranks:
            found[number].append(measured(number))
            print(json.dumps({"ranks": number, **found[number][-1]}), flush=True)
    for number, figures in found.items():
        medians = {name: statistics.median(one[name] for one in figures) for name in _FIGURES}
        print(json.dumps({"ranks": number, "medians_of": len(figures), **medians}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
