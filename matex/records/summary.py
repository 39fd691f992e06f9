"""``summary.json``: the results of a run, under names that other programs rely on."""

from __future__ import annotations

import csv
import io
import math
import statistics
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from matex.records.equality import numbers_of
from matex.records.event_counts import event_counts
from matex.records.events import Event, give_room, write_json
from matex.records.fault_records import FIELDS, fault_records, restarts_in
from matex.records.lost_ranks import ranks_left, ranks_lost
from matex.records.starts import starts_of, stop_signals
from matex.records.step_report import StepReport

__all__ = [
    "COUNTS",
    "FAULTS",
    "SUMMARY",
    "Stopped",
    "Totals",
    "faults_csv",
    "summarize",
    "unwritten",
]

SUMMARY = "summary.json"
FAULTS = "faults.csv"

#: Fields of :class:`Totals` that are equal on all ranks and counted from the job's first start.
COUNTS = (
    *("epochs", "steps", "samples_expected", "samples_planned", "samples_used"),
    *("parameters_start", "parameters_end", "metrics"),
)

# Medians are over this many last steps: a run may have millions.
_RECENT = 10_000


@dataclass(frozen=True, kw_only=True)
class Stopped:
    """Reason for which a run ended early, and whether there is a checkpoint of that very step."""

    reason: str
    resumable: bool


@dataclass
class Totals:
    """Counts of one rank while it trains.

    ``COUNTS`` are equal on all ranks, and of the whole job. ``own_steps`` is the number of steps of
    this rank since its start, over which it counts messages, bytes and times. ``samples_expected``
    are the samples of epochs that have begun or are to come, ``samples_planned`` those of finished
    steps.

    """

    world_size_start: int
    spares: int = 0
    strategy: str = "sync"
    epochs: int = 0
    steps: int = 0
    samples_expected: int = 0
    samples_planned: int = 0
    samples_used: int = 0
    parameters_start: int = 0
    parameters_end: int = 0
    own_steps: int = 0
    messages: int = 0
    bytes: int = 0
    metrics: dict[str, float] = field(default_factory=dict)
    staleness: Counter[int] = field(default_factory=Counter)
    step_s: deque[float] = field(default_factory=lambda: deque(maxlen=_RECENT))
    exchange_s: deque[float] = field(default_factory=lambda: deque(maxlen=_RECENT))

    def count(self, report: StepReport) -> None:
        """Count a finished step."""
        self.steps += 1
        self.own_steps += 1
        self.samples_planned += report.planned
        self.samples_used += report.samples
        self.step_s.append(report.step_s)
        self.exchange_s.append(report.exchange_s)
        self.messages += report.sent.messages
        self.bytes += report.sent.bytes

    def counts(self) -> dict[str, Any]:
        """Counts from which another rank, or a later start of the job, continues."""
        return {name: getattr(self, name) for name in COUNTS}

    def go_on_from(self, counts: Mapping[str, Any]) -> None:
        """Inverse of :meth:`counts`."""
        for name in COUNTS:
            setattr(self, name, counts[name])


def summarize(
    totals: Totals,
    events: Iterable[Event],
    *,
    status: str,
    reason: str | None,
    resumable: bool = False,
    world_size_end: int,
    weights_hash: dict[str, str],
    wall_s: float,
) -> dict[str, Any]:
    """Content of ``summary.json``. Pure.

    All fields but medians and means over steps are of the whole job, from its first start to now:
    steps that were lost with a start and made again count once. Every step's sum of sample counts
    and fingerprints was checked before its update, so no sample counted in ``samples_used`` was
    used twice; samples that were expected and not used were lost. ``ranks_lost`` and
    ``ranks_left``: see :mod:`matex.records.lost_ranks`.

    """
    events = list(events)
    starts = starts_of(events)
    return {
        "status": status,
        "reason": reason,
        "resumable": resumable,
        "strategy": totals.strategy,
        "messages_per_step": _a_step(totals.messages, totals.own_steps),
        "bytes_per_step": _a_step(totals.bytes, totals.own_steps),
        "rows": _rows(events),
        "numbers": numbers_of(events, skipped=_skipped(totals, events)),
        "staleness": {str(n): count for n, count in sorted(totals.staleness.items())},
        "world_size_start": _first_size(events, totals.world_size_start),
        "world_size_end": world_size_end,
        "spares": totals.spares,
        "spares_used": len(_joined(events) - _respawned(events)),
        "spares_lost": len(
            {rank for e in events if e["event"] == "spare-lost" for rank in e["lost"]}
        ),
        "respawned": len(_joined(events) & _respawned(events)),
        "ranks_lost": ranks_lost(events),
        "ranks_left": ranks_left(events),
        "starts": len(starts),
        "restarts": len(restarts_in(events)),
        "epochs": totals.epochs,
        "steps": totals.steps,
        "samples_expected": totals.samples_expected,
        "samples_used": totals.samples_used,
        "samples_repeated": max(0, totals.samples_used - totals.samples_expected),
        "samples_lost": max(0, totals.samples_expected - totals.samples_used),
        "weights_hash": weights_hash,
        "parameters_start": totals.parameters_start,
        "parameters_end": totals.parameters_end,
        "metrics": totals.metrics,
        "wall_s": sum(start.seconds for start in starts[:-1]) + wall_s,
        "step_s": _median(totals.step_s),
        "exchange_s": _median(totals.exchange_s),
        "checkpoints": _checkpoints(events),
        "faults": fault_records(events),
    }


def _skipped(totals: Totals, events: list[Event]) -> bool:
    """Whether finished steps of the job were made without some of their samples.

    Events tell also of steps that were lost with a start, and perhaps made again with all samples.
    Counts do not, but a run that could not write its own summary has none.
    """
    told = any(e["event"] == "nonfinite" and e["policy"] == "skip" for e in events)
    return told and (not totals.samples_planned or totals.samples_used < totals.samples_planned)


def _joined(events: list[Event]) -> set[tuple[int, int]]:
    """(Start of the ranks, spare) for each spare that took a lost rank's place."""
    return {
        (number, spare)
        for number, start in enumerate(starts_of(events))
        for event in start.events
        for spare in event.get("joined", {}).values()
    }


def _respawned(events: list[Event]) -> set[tuple[int, int]]:
    """(Start of the ranks, process) for each process started for a dead rank."""
    return {
        (number, event["newcomer"])
        for number, start in enumerate(starts_of(events))
        for event in start.events
        if event["event"] == "respawn"
    }


def _rows(events: list[Event]) -> dict[str, int] | None:
    """Sources of the ranks' rows in all epochs, summed over ranks.

    None if no epoch tells. An epoch that ended twice, because later steps were lost, counts the
    second time.
    """
    found: dict[int, list[dict[str, int]]] = {}
    for start in starts_of(events):
        epochs = [event for event in start.events if event["event"] == "epoch" and "rows" in event]
        for step in {event["step"] for event in epochs}:
            found[step] = [event["rows"] for event in epochs if event["step"] == step]
    if not found:
        return None
    every = [rows for of_epoch in found.values() for rows in of_epoch]
    return {name: sum(rows[name] for rows in every) for name in ("read", "came")}


def _first_size(events: list[Event], otherwise: int) -> int:
    """Number of working ranks at the first start of the job."""
    sizes = (event["world_size"] for event in events if event["event"] == "start")
    return next(sizes, otherwise)


def faults_csv(faults: Sequence[dict[str, Any]]) -> str:
    """Fault records of a summary as CSV, with the names of the fields first. Pure."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, FIELDS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(faults)
    return text.getvalue()


def _checkpoints(events: list[Event]) -> dict[str, Any]:
    """Numbers of checkpoints by tier, the newest step, and failed attempts with their reason."""
    written = [event for event in events if event["event"] == "checkpoint"]
    failures = [event for event in events if event["event"] == "checkpoint-failed"]
    return {
        "files": sum(event["tier"] == "files" for event in written),
        "memory": sum(event["tier"] == "memory" for event in written),
        "newest_step": max((event["step"] for event in written), default=None),
        "failed": len(failures),
        "last_failure": failures[-1]["reason"] if failures else None,
    }


def unwritten(report: Path, events: Sequence[Event], *, ranks: int, step: int, reason: str) -> str:
    """Write the summary of a run that could not write its own; return its status.

    If the ranks saved after a stop request, or had not met when it was received and no training is
    lost, it was stopped. Else it failed, and is resumable if there is a checkpoint of any step.

    Args:
        events: events of the whole job, in order of time.
        ranks: number of ranks at the start.
        step: step that the ranks had reached.
    """
    requested_s = max((e["time_s"] for e in stop_signals(events)), default=math.inf)
    files = [
        event
        for event in events
        if event["event"] == "checkpoint"
        and event["tier"] == "files"
        and Path(event["path"]).exists()
    ]
    has_saved = any(event["time_s"] >= requested_s for event in files)
    is_unmet = requested_s < math.inf and not _have_met(starts_of(events)[-1].events)
    loses_nothing = is_unmet and (bool(files) or not _have_met(events))
    status = "stopped" if has_saved or loses_nothing else "failed"
    summary = summarize(
        Totals(world_size_start=ranks, steps=max(0, step), **event_counts(events)),
        events,
        status=status,
        reason=reason,
        resumable=bool(files) or loses_nothing,
        world_size_end=0,
        weights_hash={},
        wall_s=starts_of(events)[-1].seconds,
    )
    give_room(report)
    write_json(report / SUMMARY, summary)
    return status


def _have_met(events: Iterable[Event]) -> bool:
    return any(event["event"] == "start" for event in events)


def _a_step(count: int, steps: int) -> float | None:
    return count / steps if steps else None


def _median(times: Iterable[float]) -> float | None:
    known = list(times)
    return statistics.median(known) if known else None
