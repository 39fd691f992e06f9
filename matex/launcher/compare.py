"""``matex run --compare``: comparison of a run's numbers with plain Keras's."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from matex.config import environment_of_started, one_order_of_sets
from matex.launcher.launch import Launch
from matex.launcher.lines import say
from matex.report.reading import read_run

__all__ = ["compare_with_plain", "largest_differences"]

_LOGS, _OUTPUT = "plain.jsonl", "plain.log"

Epoch = dict[str, float]


def compare_with_plain(wanted: Launch, report: Path, *, kept: bool) -> None:
    """Run the script once more, plainly, and print the differences.

    Args:
        wanted: launch that has ended.
        report: its report directory, which gets the logs of the plain run, too.
        kept: whether the directory is kept afterwards.
    """
    logs, output = report / _LOGS, report / _OUTPUT
    logs.unlink(missing_ok=True)
    command = [sys.executable, "-m", "matex.process.plain", str(logs), str(wanted.config.seed)]
    say("comparing with plain Keras in one process")
    try:
        status = _run([*command, *wanted.program], output, wanted.config.seed)
    except KeyboardInterrupt:
        say("asked to stop: nothing is compared")
        return
    if status != 0:
        said = output.read_text().strip().splitlines() or ["nothing"]
        see = f"; see {output}" if kept else ""
        say(f"plain Keras ended with status {status}, so nothing is compared: {said[-1]}{see}")
        return
    lines = logs.read_text().splitlines() if logs.exists() else []
    theirs = [json.loads(line) for line in lines]
    for line in largest_differences(read_run(report).epochs(), theirs):
        say(line)


def _run(command: Sequence[str], output: Path, seed: int) -> int:
    """Run *command*, remove its temporary files, and return its exit status.

    Raises:
        KeyboardInterrupt: a signal came; the command was ended.
    """
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with tempfile.TemporaryDirectory(prefix="matex-") as scratch, output.open("w") as file:
            process = subprocess.Popen(
                command,
                env={**environment_of_started(Path(scratch)), **one_order_of_sets(seed)},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
            )
            try:
                return process.wait()
            except KeyboardInterrupt:
                process.kill()
                process.wait()
                raise
    finally:
        signal.signal(signal.SIGTERM, before)


def largest_differences(ours: Sequence[Epoch], theirs: Sequence[Epoch]) -> list[str]:
    """Lines on the largest relative difference of each value that both runs logged. Pure.

    Args:
        ours: values of each epoch of all fits, in order.
        theirs: the same of plain Keras.
    """
    if not ours or not theirs:
        return ["no epoch of fit was logged, so nothing is compared"]
    lines = []
    if len(ours) != len(theirs):
        lines.append(f"{len(ours)} epochs were logged here and {len(theirs)} by plain Keras")
    pairs = list(zip(ours, theirs, strict=False))
    names = dict.fromkeys(name for mine, _ in pairs for name in mine)
    for name in names:
        both = [(a[name], b[name], n) for n, (a, b) in enumerate(pairs) if name in a and name in b]
        if name == "epoch" or not both:
            continue
        most, mine, other, number = max((_apart(a, b), a, b, n) for a, b, n in both)
        lines.append(
            f"{name}: largest relative difference {most:.1e} "
            f"(epoch {number + 1} of {len(pairs)}: {mine:.6g} here, {other:.6g} by plain Keras)"
        )
    return lines


def _apart(a: float, b: float) -> float:
    """Difference of *a* from *b*, relative to *b*; infinite if only one of them is NaN."""
    if a == b or (a != a and b != b):
        return 0.0
    apart = abs(a - b) / (abs(b) or 1.0)
    return apart if apart == apart else float("inf")
