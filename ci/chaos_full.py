"""The full layer of chaos.py: small models trained by matex run through random faults."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from chaos_ft import Verdict
from chaos_plan import TrainPlan, draw_training

__all__ = ["Trainings"]

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = ROOT / "tests" / "train" / "scripts" / "classify.py"
TIMEOUT_S = 240.0
TOLERANCE = 1e-4

Report = dict[str, Any]


class Trainings:
    """Makes runs, and remembers what one rank alone makes of each model."""

    def __init__(self) -> None:
        self._alone: dict[tuple[str, ...], list[float]] = {}

    def runs_of(self, seed: int) -> list[Verdict]:
        """The one run of *seed*."""
        plan = draw_training(seed)
        started = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="chaos-") as place:
            wrong, summary, output = self._run(plan, Path(place))
        title = f"{plan.ranks} ranks, {' '.join(plan.script[:4])}, {' '.join(plan.faults)}"
        if plan.end_all_at is not None:
            title += f", all end after batch {plan.end_all_at}, again on {plan.ranks_again}"
        records = summary.get("faults", [])
        return [
            Verdict(
                seed=seed,
                title=title,
                wrong=wrong,
                seconds=time.monotonic() - started,
                repairs_s=[r["repair_s"] for r in records if r["repair_s"] is not None],
                kinds=[r["kind"] for r in records],
                ranks=(plan.ranks, summary.get("world_size_end", 0)),
                output=output,
            )
        ]

    def _run(self, plan: TrainPlan, place: Path) -> tuple[str, Report, str]:
        """What was wrong, the last summary, and what was printed."""
        if plan.script not in self._alone:
            status, _ = _matex(1, plan.script, (), place, place / "alone")
            if status != 0:
                raise SystemExit(f"{' '.join(plan.script)} does not train on one rank")
            self._alone[plan.script] = _losses(place / "alone")
        script, ranks = plan.script, plan.ranks
        options = [*plan.options]
        faults = [word for fault in plan.faults for word in ("--inject", fault)]
        if plan.end_all_at is not None:
            options += ["--checkpoint", str(place / "saved"), "--checkpoint-every", "3"]
            end = ("--end-all-at", str(plan.end_all_at))
            status, output = _matex(
                ranks, (*script, *end), [*options, *faults], place, place / "first"
            )
            if status != 1:
                return f"status {status} though all ranks died, 1 is wanted", {}, output
            ranks, faults = plan.ranks_again, []
        status, output = _matex(ranks, script, [*options, *faults], place, place / "report")
        path = place / "report" / "summary.json"
        if not path.exists():
            return f"no summary, status {status}", {}, output
        summary = json.loads(path.read_text())
        lost = len({r["rank"] for r in summary["faults"] if r["world_size_after"] is not None})
        wrong = judge(
            summary, _losses(place / "report"), self._alone[script],
            status=status, ranks=ranks, lost=lost,
        )  # fmt: skip
        return wrong, summary, output


def judge(
    summary: Report,
    losses: list[float],
    alone: list[float],
    *,
    status: int,
    ranks: int,
    lost: int,
) -> str:
    """What is wrong with a run, "" when nothing is. Pure.

    Args:
        losses: of each epoch that the run finished.
        alone: those of one rank without a fault, all epochs.
        lost: how many ranks were taken by faults.
    """
    hashes = set(summary["weights_hash"].values())
    if (status, summary["status"]) != (0, "finished"):
        return f"status {status}, {summary['status']}: {summary['reason']}"
    if summary["world_size_end"] != ranks - lost or len(summary["weights_hash"]) != ranks - lost:
        return f"{summary['world_size_end']} ranks at the end, {ranks} less {lost} wanted"
    if len(hashes) != 1:
        return f"the weights have {len(hashes)} hashes"
    for name in ("samples_lost", "samples_repeated"):
        if summary[name]:
            return f"{name} is {summary[name]}"
    if summary["samples_used"] != summary["samples_expected"]:
        return f"{summary['samples_used']} samples of {summary['samples_expected']}"
    wanted = alone[len(alone) - len(losses) :]
    differences = [abs(a - b) / abs(b) for a, b in zip(losses, wanted, strict=True)]
    if not losses or not max(differences) < TOLERANCE:
        return f"losses {losses}, of one rank {wanted}"
    return ""


def _losses(report: Path) -> list[float]:
    """Of each epoch, as a rank that was there to the end saw it."""
    summary = json.loads((report / "summary.json").read_text())
    survivor = int(next(iter(summary["weights_hash"]), -1))
    events = [json.loads(line) for line in (report / "events.jsonl").read_text().splitlines()]
    return [e["loss"] for e in events if e["event"] == "epoch" and e["rank"] == survivor]


def _matex(
    ranks: int, script: Sequence[str], options: Sequence[str], place: Path, report: Path
) -> tuple[int, str]:
    """``matex run`` to its end: status and output; -1 when it had to be ended."""
    command = [sys.executable, "-m", "matex", "run", "-n", str(ranks), "--report", str(report)]
    process = subprocess.Popen(
        [*command, *options, str(SCRIPT), *script],
        cwd=place,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        output, _ = process.communicate(timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=60)
        return -1, f"no end within {TIMEOUT_S:g} s\n{output}"
    return process.returncode, output
