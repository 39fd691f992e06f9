"""The cost of ``matex top`` to the run that it shows: one JSON object.

    python -m ci.benchmarks.top [--ranks 2] [--rounds 12] [--epochs 60]

One ``matex run`` on ranks with a core each makes the same fit in every round; during every second
round ``matex top``, in a terminal of its own, shows it on the same cores. ``ratio`` is the median
over pairs of rounds of the time of a step with it to that without, ``half_of_pairs`` the interval
that the middle half of the pairs lies in, and ``core`` the part of one core that ``matex top`` took
from its first screen on.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pty
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from ci.benchmarks import turns
from ci.jobs import environment


def work(ranks: int, rounds: int, epochs: int, folder: Path) -> None:
    """Make a fit in each of this program's turns; its figure is milliseconds a step."""
    from ci.benchmarks import models

    model, x, y, batch = models.build("mlp")

    def fit() -> float:
        started = time.perf_counter()
        model.fit(x, y, batch_size=batch * ranks, epochs=epochs, verbose=0)
        return (time.perf_counter() - started) * 1e3 / (epochs * -(-len(x) // (batch * ranks)))

    turns.wait_for_turns(folder, "run", rounds, fit)


@contextlib.contextmanager
def watching(report: Path, shares: list[float]) -> Iterator[None]:
    """Show *report* by ``matex top`` in a terminal meanwhile; append its part of a core."""
    terminal, inner = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "matex", "top", str(report)],
        env=environment(TERM="xterm-256color", COLUMNS="120", LINES="40"),
        stdin=inner, stdout=inner, stderr=inner,
    )  # fmt: skip
    os.close(inner)
    shown = threading.Event()
    reader = threading.Thread(target=_read_all, args=(terminal, shown))
    reader.start()
    try:
        if not shown.wait(turns.LIMIT_S):
            raise SystemExit("matex top showed nothing")
        before_s, started_s = _computed_s(child.pid), time.monotonic()
        yield
        shares.append((_computed_s(child.pid) - before_s) / (time.monotonic() - started_s))
    finally:
        child.terminate()
        child.wait()
        reader.join()
        os.close(terminal)


def _computed_s(pid: int) -> float:
    """Seconds for which process *pid*, of one thread, has computed."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def _read_all(terminal: int, shown: threading.Event) -> None:
    """Read what is shown until its program has ended."""
    with contextlib.suppress(OSError):  # Linux gives EIO at the end
        while content := os.read(terminal, 1 << 16):
            if b"step" in content:
                shown.set()


def compare(ranks: int, rounds: int, epochs: int) -> dict[str, object]:
    """Let the run make its fits; the first pair, whose fits trace, does not count."""
    shares: list[float] = []
    with tempfile.TemporaryDirectory(prefix="bench-") as path:
        report = Path(path) / "report"

        def beside(number: int) -> contextlib.AbstractContextManager[object]:
            return watching(report, shares) if number % 2 else contextlib.nullcontext()

        words = ["--ranks", ranks, "--rounds", rounds + 2, "--epochs", epochs, "--folder", path]
        matex = ["-m", "matex", "run", "-n", ranks, "--report", report, Path(__file__).resolve()]
        times = turns.take_turns(
            {"run": ([sys.executable, *map(str, [*matex, *words])], environment())},
            rounds=rounds + 2,
            folder=Path(path),
            beside=beside,
        )["run"][2:]
    ratios = [own / other for other, own in zip(times[::2], times[1::2], strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4)
    return {
        "step_ms": round(statistics.median(times[::2]), 4),
        "ratio": round(middle, 4),
        "half_of_pairs": [round(low, 4), round(high, 4)],
        "core": round(statistics.median(shares[1:]), 5),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=12, help="half of them with matex top")
    parser.add_argument("--epochs", type=int, default=60, help="epochs of a fit")
    parser.add_argument("--folder", type=Path, help="set by this program for its run")
    arguments = parser.parse_args()
    if arguments.folder is not None:
        work(arguments.ranks, arguments.rounds, arguments.epochs, arguments.folder)
        return
    rounds = arguments.rounds + arguments.rounds % 2
    print(json.dumps(compare(arguments.ranks, rounds, arguments.epochs)), flush=True)


if __name__ == "__main__":
    main()
