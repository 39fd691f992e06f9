"""The full layer of chaos.py: small models trained by matex run through random faults."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chaos_ft import Verdict
from chaos_train_plan import EPOCH_STEPS, STEPS, Start, TrainPlan, draw_training, training_of

__all__ = ["Outcome", "Trainings", "judge", "judge_losses"]

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = ROOT / "ci" / "chaos_train.py"
TIMEOUT_S = 400.0
TOLERANCE = 1e-4

Event = dict[str, Any]
#: Loss, and loss of the validation where there is one, of each epoch by its last step.
Losses = dict[int, tuple[float, ...]]


@dataclass(kw_only=True)
class Outcome:
    """What a start of the ranks left behind."""

    status: int
    output: str
    events: list[Event] = field(default_factory=list)
    summary: dict[str, Any] | None = None

    @property
    def fired(self) -> list[Event]:
        return [e for e in self.events if e["event"] == "fault"]

    @property
    def dead(self) -> set[int]:
        return {e["rank"] for e in self.fired if e["lethal"]}

    @property
    def joined(self) -> dict[int, int]:
        """The spares that took others' places, and in which step."""
        return {s: e["step"] for e in self.events for s in e.get("joined", {}).values()}

    @property
    def died_waiting(self) -> set[int]:
        """Those who waited in the fit in which they died, and had not joined."""
        found: set[int] = set()
        waiting: set[int] = set()
        for event in self.events:
            waiting -= set(event.get("joined", {}).values())
            if event["event"] == "waits":
                waiting.add(event["rank"])
            elif event["event"] == "fit":
                waiting.discard(event["rank"])
            elif event["event"] == "fault" and event["lethal"] and event["rank"] in waiting:
                found.add(event["rank"])
        return found


class Trainings:
    """Makes launches, and remembers what one rank alone makes of each training."""

    def __init__(self) -> None:
        self._alone: dict[str, list[tuple[float, ...]]] = {}

    def runs_of(self, seed: int) -> list[Verdict]:
        """Make the launch of *seed*; one verdict a training."""
        plan = draw_training(seed)
        with tempfile.TemporaryDirectory(prefix="mx-") as place:
            self._learn(plan, Path(place))
            started = time.monotonic()
            outcomes = [_outcome(plan, n, Path(place)) for n in range(len(plan.starts))]
            seconds = time.monotonic() - started
        return verdicts(plan, outcomes, self._alone, seconds=seconds)

    def _learn(self, plan: TrainPlan, place: Path) -> None:
        new = sorted(set(plan.trainings) - set(self._alone))
        if not new:
            return
        alone = _matex(Start(ranks=1, spares=0, faults=()), new, (), place, "alone")
        if alone.status != 0:
            raise SystemExit(f"{' '.join(new)} does not train on one rank:\n{alone.output}")
        losses, _ = _losses([alone])
        for number, training in enumerate(new):
            self._alone[training] = [losses[step] for step in _ends(number)]


def verdicts(
    plan: TrainPlan,
    outcomes: list[Outcome],
    alone: dict[str, list[tuple[float, ...]]],
    *,
    seconds: float,
) -> list[Verdict]:
    """What each training of a launch came to. Pure."""
    pairs = list(zip(plan.starts, outcomes, strict=True))
    problem = next(filter(None, (judge(start, outcome) for start, outcome in pairs)), "")
    losses, differ = _losses(outcomes)
    made: list[Verdict] = []
    for number, training in enumerate(plan.trainings):
        mine = [
            (start, outcome)
            for start, outcome in pairs
            if start.end_all is None or number <= start.end_all[0]
        ]
        start, outcome = mine[0] if mine[0][0].end_all else mine[-1]
        total = start.ranks + start.spares
        dead = {e["rank"]: training_of(e["step"], e["at"]) for e in outcome.fired if e["lethal"]}
        sizes = [
            min(start.ranks, total - sum(t < bound for t in dead.values()))
            for bound in (number, number + 1)
        ]
        fired = [e for o in outcomes for e in o.fired if training_of(e["step"], e["at"]) == number]
        restarted = start.end_all is not None and start.end_all[0] == number
        records = [r for o in outcomes if o.summary for r in o.summary["faults"]]
        made.append(
            Verdict(
                seed=plan.seed,
                title=f"training {number + 1}/{len(plan.trainings)}, {training}, {sizes[0]} ranks"
                + (f" of {total}" if start.spares else "")
                + f", {' '.join(e['fault'] for e in fired) or '-'}"
                + (", all end" if restarted else ""),
                wrong=problem or differ or judge_losses(number, losses, alone[training]),
                seconds=seconds / len(plan.trainings),
                repairs_s=[
                    r["repair_s"]
                    for r in records
                    if r["repair_s"] is not None and training_of(r["step"], r["at"]) == number
                ],
                kinds=[e["kind"] for e in fired] + ["all"] * restarted,
                ranks=(sizes[0], sizes[1]),
                joined=sum(
                    training_of(step) == number for o in outcomes for step in o.joined.values()
                ),
                output="\n".join(o.output for o in outcomes),
            )
        )
    return made


def judge(start: Start, outcome: Outcome) -> str:
    """What is wrong with a start of the ranks as a whole, "" when nothing is. Pure."""
    summary, total = outcome.summary, start.ranks + start.spares
    if start.end_all is not None:
        wrong = outcome.status != 1
        return f"status {outcome.status} though all ranks died, 1 is wanted" if wrong else ""
    if summary is None:
        return f"no summary, status {outcome.status}"
    if (outcome.status, summary["status"]) != (0, "finished"):
        return f"status {outcome.status}, {summary['status']}: {summary['reason']}"
    size = min(start.ranks, total - len(outcome.dead))
    if {summary["world_size_end"], len(summary["weights_hash"])} != {size}:
        return f"{summary['world_size_end']} ranks at the end, {size} of {total} wanted"
    hashes = set(summary["weights_hash"].values())
    if len(hashes) != 1:
        return f"the weights have {len(hashes)} hashes"
    wanted = {
        "samples_lost": 0, "samples_repeated": 0, "samples_used": summary["samples_expected"],
        "spares": start.spares, "spares_used": len(outcome.joined),
        "spares_lost": len(outcome.died_waiting),
    }  # fmt: skip
    for name, value in wanted.items():
        if summary[name] != value:
            return f"{name} is {summary[name]}, {value} wanted"
    recorded = {r["rank"] for r in summary["faults"] if r["overcome"] or r["kind"] in _LETHAL}
    if not outcome.dead <= recorded:
        return f"no record of the death of ranks {sorted(outcome.dead - recorded)}"
    unfired = [e["fault"] for e in outcome.events if e["event"] == "fault-not-fired"]
    told = sorted([*unfired, *(e["fault"] for e in outcome.fired)])
    if told != sorted(start.faults):
        return f"faults fired {outcome.fired} and not {unfired}, planned {start.faults}"
    return ""


_LETHAL = ("kill", "segv", "exit", "raise", "stop")


def judge_losses(number: int, losses: Losses, alone: list[tuple[float, ...]]) -> str:
    """What is wrong with the losses of training *number*, "" when nothing is. Pure.

    Args:
        alone: those of one rank without a fault.
    """
    for step, wanted in zip(_ends(number), alone, strict=True):
        found = losses.get(step, ())
        if len(found) != len(wanted):
            return f"losses {found} after step {step}, of one rank {wanted}"
        differences = [abs(a - b) / abs(b) for a, b in zip(found, wanted, strict=True)]
        if not all(difference < TOLERANCE for difference in differences):
            return f"losses {found} after step {step}, of one rank {wanted}"
    return ""


def _ends(number: int) -> range:
    """The steps after which the epochs of training *number* end."""
    return range(number * STEPS + EPOCH_STEPS, (number + 1) * STEPS + 1, EPOCH_STEPS)


def _losses(outcomes: Sequence[Outcome]) -> tuple[Losses, str]:
    """Of all starts, the last one's counting, and whether the ranks of one saw different ones."""
    found: Losses = {}
    differ = ""
    for outcome in outcomes:
        here: dict[int, set[tuple[float, ...]]] = {}
        for event in outcome.events:
            if event["event"] == "epoch":
                values = [event[name] for name in ("loss", "val_loss") if name in event]
                here.setdefault(event["step"], set()).add(tuple(values))
        for step, seen in here.items():
            if len(seen) > 1:
                differ = f"the ranks saw different losses after step {step}: {sorted(seen)}"
            found[step] = min(seen)
    return found, differ


def _outcome(plan: TrainPlan, number: int, place: Path) -> Outcome:
    options = [*plan.options]
    if plan.checkpoint:
        options += ["--checkpoint", str(place / "saved"), "--checkpoint-every", "3"]
    return _matex(plan.starts[number], plan.trainings, options, place, f"report-{number}")


def _matex(
    start: Start, trainings: Sequence[str], options: Sequence[str], place: Path, name: str
) -> Outcome:
    """``matex run`` to its end; its status is -1 when it had to be ended."""
    report = place / name
    command = [
        *(sys.executable, "-m", "matex", "run", "-n", str(start.ranks), "--report", str(report)),
        *(("--spares", str(start.spares)) if start.spares else ()),
        *options,
        *(word for fault in start.faults for word in ("--inject", fault)),
        str(SCRIPT),
    ]
    if start.end_all is not None:
        command += ["--end-all-at", ",".join(map(str, start.end_all))]
    process = subprocess.Popen(
        [*command, *trainings],
        cwd=place,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        output, _ = process.communicate(timeout=TIMEOUT_S)
        status = process.returncode
    except subprocess.TimeoutExpired:
        output = _told_to_end(process)
        status, output = -1, f"no end within {TIMEOUT_S:g} s\n{output}"
    finally:  # interrupted: the launcher ends its ranks when it is told to
        if process.poll() is None:
            _told_to_end(process)
    outcome = Outcome(status=status, output=output)
    events, summary = report / "events.jsonl", report / "summary.json"
    if events.exists():
        outcome.events = [json.loads(line) for line in events.read_text().splitlines()]
    if summary.exists():
        outcome.summary = json.loads(summary.read_text())
    return outcome


def _told_to_end(process: subprocess.Popen[str]) -> str:
    """End ``matex run``; what it had printed. Ranks that hang cannot leave when told once."""
    for _ in range(2):
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.communicate(timeout=60)[0]
    raise SystemExit(f"matex run (process {process.pid}) did not end when it was told to, twice")
