"""The layers full and bits: small models trained by matex run through random faults."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from ci.chaos.ft.launch import Verdict
from ci.chaos.training.launch import Outcome, train
from ci.chaos.training.options import bound_of, strategy_of, tolerance
from ci.chaos.training.plan import (
    EPOCH_STEPS,
    SAVE_EVERY,
    STEPS,
    VIRTUAL,
    Start,
    TrainPlan,
    draw_training,
    training_of,
)

__all__ = ["Outcome", "Trainings", "judge", "judge_losses"]

#: Loss, and loss of the validation where there is one, of each epoch by its last step; in the layer
#: bits also a checksum of weights and optimizer.
Losses = dict[int, tuple[float, ...]]


class Trainings:
    """Makes launches, and remembers what one rank alone makes of each training.

    Args:
        bits: whether all must come to the very bits of one rank.
    """

    def __init__(self, *, bits: bool = False) -> None:
        self._bits = bits
        self._alone: dict[str, list[tuple[float, ...]]] = {}

    def runs_of(self, seed: int) -> list[Verdict]:
        """Make the launch of *seed*; one verdict a training."""
        plan = draw_training(seed, bits=self._bits)
        with tempfile.TemporaryDirectory(prefix="mx-") as place:
            self._learn(plan, Path(place))
            started = time.monotonic()
            outcomes = [_outcome(plan, n, Path(place)) for n in range(len(plan.starts))]
            seconds = time.monotonic() - started
        return verdicts(plan, outcomes, self._alone, seconds=seconds, bits=self._bits)

    def _learn(self, plan: TrainPlan, place: Path) -> None:
        new = sorted(set(plan.trainings) - set(self._alone))
        if not new:
            return
        options = ("--deterministic", "--virtual", str(VIRTUAL)) if self._bits else ()
        alone = train(Start(ranks=1, spares=0, faults=()), new, options, place, "alone")
        if alone.status != 0:
            raise SystemExit(f"{' '.join(new)} does not train on one rank:\n{alone.output}")
        losses, _ = _losses([alone], bits=self._bits)
        for number, training in enumerate(new):
            self._alone[training] = [losses[step] for step in _ends(number)]


def verdicts(
    plan: TrainPlan,
    outcomes: list[Outcome],
    alone: dict[str, list[tuple[float, ...]]],
    *,
    seconds: float,
    bits: bool = False,
) -> list[Verdict]:
    """The verdict on each training of a launch. Pure."""
    pairs = list(zip(plan.starts, outcomes, strict=True))
    problem = next(filter(None, (judge(start, outcome) for start, outcome in pairs)), "")
    problem = problem or _judge_resuming(pairs)
    losses, differ = _losses(outcomes, bits=bits)
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
                + (f", {' '.join(start.way)}" if start.way else "")
                + f", {' '.join(e['fault'] for e in fired) or '-'}"
                + (", all end" if restarted else ""),
                wrong=problem
                or differ
                or judge_losses(
                    number, losses, alone[training], within=0.0 if bits else _within(plan, number)
                ),
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
    """A sentence about what is wrong with a start of the ranks as a whole, "" for nothing. Pure."""
    summary, total = outcome.summary, start.ranks + start.spares
    if outcome.left:
        return f"left behind: {', '.join(outcome.left)}"
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
        "spares_lost": len(outcome.died_waiting), "strategy": strategy_of(start.way),
    }  # fmt: skip
    for name, value in wanted.items():
        if summary[name] != value:
            return f"{name} is {summary[name]}, {value} wanted"
    recorded = {r["rank"] for r in summary["faults"] if r["overcome"] or r["kind"] in _LETHAL}
    if not outcome.dead <= recorded:
        return f"no record of the death of ranks {sorted(outcome.dead - recorded)}"
    unfired = [e["fault"] for e in outcome.events if e["event"] == "fault-not-fired"]
    accounted = sorted([*unfired, *(e["fault"] for e in outcome.fired)])
    if accounted != sorted(start.faults):
        return f"faults fired {outcome.fired} and not {unfired}, planned {start.faults}"
    return _judge_strategy(start, outcome)


def _judge_strategy(start: Start, outcome: Outcome) -> str:
    """A sentence about what is wrong with the report of a start's strategy, "" for nothing."""
    if strategy_of(start.way) == "sync":
        return ""
    assert outcome.summary is not None
    for event in outcome.events:
        if event["event"] == "epoch" and not 0 <= event["strategy"]["disagreement"] < math.inf:
            return f"replicas {event['strategy']} apart after step {event['step']}"
    bound, stale = bound_of(start.way), outcome.summary["staleness"]
    if bound is not None and max(map(int, stale), default=0) > bound:
        return f"staleness {stale}, at most {bound} wanted"
    return ""


def _judge_resuming(pairs: Sequence[tuple[Start, Outcome]]) -> str:
    """A sentence on a wrong beginning of the second start, "" where it is right or missing."""
    if len(pairs) == 1:
        return ""
    (first, _), (_, again) = pairs
    assert first.end_all is not None
    begun = next(e["step"] for e in again.events if e["event"] == "fit")
    least = first.end_all[0] * STEPS
    return "" if begun > least else f"went on from step {begun}, later than {least} wanted"


_LETHAL = ("kill", "segv", "exit", "raise", "stop")


def judge_losses(
    number: int, losses: Losses, alone: list[tuple[float, ...]], *, within: float
) -> str:
    """A sentence about what is wrong with the losses of training *number*, "" for nothing. Pure.

    Args:
        alone: losses of one rank without a fault.
        within: largest difference from these, relative to them.
    """
    for step, wanted in zip(_ends(number), alone, strict=True):
        found = losses.get(step, ())
        if len(found) != len(wanted):
            return f"losses {found} after step {step}, of one rank {wanted}"
        differences = [abs(a - b) / abs(b) for a, b in zip(found, wanted, strict=True)]
        if not all(difference <= within for difference in differences):  # NaN is not
            return f"losses {found} after step {step}, of one rank {wanted}"
    return ""


def _within(plan: TrainPlan, number: int) -> float:
    """Largest relative difference of the losses of training *number* from those of one rank."""
    first, *again = plan.starts
    if not again or first.end_all is None or number < first.end_all[0]:
        return tolerance(first.way)
    ways = [again[0].way] if number > first.end_all[0] else [first.way, again[0].way]
    return max(map(tolerance, ways))


def _ends(number: int) -> range:
    """The steps after which the epochs of training *number* end."""
    return range(number * STEPS + EPOCH_STEPS, (number + 1) * STEPS + 1, EPOCH_STEPS)


def _losses(outcomes: Sequence[Outcome], *, bits: bool) -> tuple[Losses, str]:
    """The losses of all starts, the last one's counting, and how ranks of one differed."""
    found: Losses = {}
    differ = ""
    for outcome in outcomes:
        here: dict[int, set[tuple[float, ...]]] = {}
        replicas: dict[int, set[float]] = {}
        for event in outcome.events:
            if event["event"] == "epoch":
                names = ("loss", "val_loss", *(("replica",) if bits else ()))
                values = [event[name] for name in names if name in event]
                here.setdefault(event["step"], set()).add(tuple(values))
                replicas.setdefault(event["step"], set()).add(event["replica"])
        for step, seen in here.items():
            if len(seen) > 1:
                differ = f"the ranks saw different losses after step {step}: {sorted(seen)}"
            if len(replicas[step]) > 1:
                differ = f"the ranks had {len(replicas[step])} different replicas after step {step}"
            found[step] = min(seen)
    return found, differ


def _outcome(plan: TrainPlan, number: int, place: Path) -> Outcome:
    options = [*plan.options]
    if plan.checkpoint:
        options += ["--checkpoint", str(place / "saved"), "--checkpoint-every", str(SAVE_EVERY)]
    return train(plan.starts[number], plan.trainings, options, place, f"report-{number}")
