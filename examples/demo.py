"""Train the HIGGS classifier on four ranks twice, the second time killing one in the middle.

Prints what became of both runs side by side. Exit status 0 only if both finished.
"""

import argparse
import json
import math
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from course.higgs import held_out_rows
from rich.console import Console
from rich.table import Table

RANKS, VICTIM, BATCH_SIZE = 4, 2, 512
LIMIT_S = 900.0  # a run that takes longer than this is ended
SCRIPT = Path(__file__).with_name("01_higgs.py")
REQUIRED: dict[str, type | tuple[type, ...]] = {
    "status": str,
    "world_size_start": int,
    "world_size_end": int,
    "samples_expected": int,
    "samples_used": int,
    "samples_repeated": int,
    "samples_lost": int,
    "metrics": dict,
    "wall_s": (int, float),
    "faults": list,
}
Summary = dict[str, Any]  # the contents of a summary.json


class DemoError(Exception):
    """A run did not do what the demo shows; the message is one line."""


def middle_step(epochs: int, events: int) -> int:
    """The training step, from 0, in the middle of `epochs` over the training part of `events`."""
    steps = math.ceil((events - held_out_rows(events)) / BATCH_SIZE)
    return epochs * steps // 2


def command(report: Path, epochs: int, events: int, fault: str | None) -> list[str]:
    """The command line of one run, with the interpreter that runs the demo."""
    inject = [] if fault is None else ["--inject", fault]
    launch = [sys.executable, "-m", "matex", "run", "-n", str(RANKS), "--report", str(report)]
    sizes = ["--epochs", str(epochs), "--events", str(events), "--batch-size", str(BATCH_SIZE)]
    return [*launch, *inject, str(SCRIPT), *sizes]


def read_summary(report: Path) -> Summary:
    """The summary of a run; DemoError if it is missing, damaged, incomplete or not of a success."""
    path = report / "summary.json"
    try:
        summary = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DemoError(f"the run left no readable {path}: {error}") from error
    if not isinstance(summary, dict):
        raise DemoError(f"{path} must hold one JSON object. Received: {type(summary).__name__}.")
    wrong = [key for key, kind in REQUIRED.items() if not isinstance(summary.get(key), kind)]
    if wrong:
        raise DemoError(f"{path} lacks {', '.join(wrong)}, or they have another type.")
    if summary["status"] != "finished":
        raise DemoError(f"the run ended with status {summary['status']!r}, see {report}.")
    return summary


def _number(value: object, digits: int, unit: str = "") -> str:
    return f"{value:.{digits}f}{unit}" if isinstance(value, int | float) else "-"


def rows(plain: Summary, faulty: Summary) -> list[tuple[str, str, str]]:
    """The table's lines: what, without a fault, with one. A figure a summary lacks is a dash."""

    def column(run: Summary) -> list[str]:
        metrics = run["metrics"]
        gaps = [_number(fault.get("to_next_step_s"), 3, " s") for fault in run["faults"]]
        return [
            _number(metrics.get("val_auc"), 4),
            _number(metrics.get("auc"), 4),
            _number(metrics.get("val_loss"), 4),
            _number(metrics.get("loss"), 4),
            f"{run['world_size_end']} of {run['world_size_start']} ranks",
            ", ".join(gaps) or "no fault",
            f"{run['samples_used']:,} of {run['samples_expected']:,}",
            f"{run['samples_repeated']:,}",
            f"{run['samples_lost']:,}",
            _number(run["wall_s"], 1, " s"),
        ]

    names = [
        "AUC, test events",
        "AUC, training events",
        "loss, test events",
        "loss, training events",
        "world size at the end",
        "kill to next finished step",
        "samples used",
        "samples repeated",
        "samples lost",
        "wall time",
    ]
    return list(zip(names, column(plain), column(faulty), strict=True))


def make_table(plain: Summary, faulty: Summary) -> Table:
    """The two runs side by side."""
    faults = [
        f"{fault['kind']} rank {fault['rank']}, step {fault['step']}" for fault in faulty["faults"]
    ]
    table = Table(title=f"HIGGS on {plain['world_size_start']} ranks")
    table.add_column("last epoch")
    table.add_column("no fault", justify="right")
    table.add_column("; ".join(faults) or "no fault either", justify="right")
    for row in rows(plain, faulty):
        table.add_row(*row)
    return table


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "it printed nothing"


def run(console: Console, report: Path, arguments: Sequence[str]) -> Summary:
    """Run one command, show its output, return the summary; DemoError if it did not finish."""
    shutil.rmtree(report, ignore_errors=True)  # of an earlier demo
    shown = ""
    with tempfile.TemporaryFile("w+", errors="replace") as errors:
        process = subprocess.Popen(
            arguments, stdout=subprocess.PIPE, stderr=errors, text=True, errors="replace"
        )
        timer = threading.Timer(LIMIT_S, process.terminate)
        timer.start()
        try:
            with process:
                for line in process.stdout or ():
                    shown = line if line.strip() else shown
                    console.print(
                        f"  {line.rstrip()}",
                        style="dim",
                        markup=False,
                        highlight=False,
                        soft_wrap=True,
                    )
        finally:
            timer.cancel()
        errors.seek(0)
        reason = _last_line(errors.read() or shown)
    if process.returncode != 0:
        raise DemoError(f"the run ended with exit status {process.returncode}: {reason}")
    return read_summary(report)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--report",
        type=Path,
        default=Path("demo-report"),
        help="folder for both reports; an earlier demo's in it are replaced",
    )
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--events", type=int, default=200_000)
    return parser.parse_args()


def main() -> int:
    """Run both, print the table; 0 if both finished and the fault took place, otherwise 1."""
    args, console = _parse(), Console()
    step = middle_step(args.epochs, args.events)
    fault = f"kill:rank={VICTIM},step={step}"
    try:
        console.print(f"[bold]1 of 2[/]: {RANKS} ranks, no fault")
        folder = args.report / "no-fault"
        plain = run(console, folder, command(folder, args.epochs, args.events, None))
        console.print(f"[bold]2 of 2[/]: {RANKS} ranks, rank {VICTIM} killed at step {step}")
        folder = args.report / "one-killed"
        faulty = run(console, folder, command(folder, args.epochs, args.events, fault))
        if not faulty["faults"]:
            raise DemoError(f"the second run finished, but {fault} did not happen, see {folder}.")
    except DemoError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    console.print(make_table(plain, faulty))
    console.print(f"Reports: {args.report}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
