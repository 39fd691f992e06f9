"""A report directory, read, and its events as functions of time. No plotting here."""

from __future__ import annotations

import bisect
import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from matex.errors import InputError
from matex.records.event_shape import is_well_formed
from matex.records.events import EVENTS, Event, read_events
from matex.records.fault_records import fault_records
from matex.records.lost_ranks import ranks_left
from matex.records.scalars import NOT_METRICS
from matex.records.starts import Start, starts_of
from matex.records.summary import SUMMARY

__all__ = ["Curve", "Life", "Run", "read_run"]

# The events after whose steps steps are made ready.
_READY = ("first-step", "fit", "loop", "apoptosis")
# Fields of a summary that are objects.
_OBJECTS = ("metrics", "weights_hash")


class Curve(NamedTuple):
    """``seconds`` since the start of the run, and values; None for unknown ones."""

    seconds: list[float]
    values: list[float]


class Life(NamedTuple):
    """Time in which an original rank took part, seconds since the start.

    ``lost``: it died; ``left``: it was asked to leave.
    """

    rank: int
    begin: float
    end: float
    lost: bool
    left: bool = False


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run; ``summary`` is empty if it has not ended with one."""

    directory: Path
    summary: dict[str, Any]
    events: list[Event]

    @property
    def started(self) -> float:
        """Unix time of the first event, seconds."""
        return float(self.events[0]["time_s"])

    @property
    def ended(self) -> float:
        """Seconds from the first event to the last."""
        return float(self.events[-1]["time_s"]) - self.started

    @property
    def faults(self) -> list[dict[str, Any]]:
        """The fault records: see :func:`matex.records.fault_records.fault_records`."""
        return fault_records(self.events)

    def epochs(self) -> list[dict[str, float]]:
        """Metrics of each epoch, from the first rank that wrote them."""
        seen: dict[tuple[int, int], dict[str, float]] = {}
        for event in self.events:
            if event["event"] == "epoch":
                numbers = {
                    name: value
                    for name, value in event.items()
                    if name not in NOT_METRICS and isinstance(value, int | float)
                }
                seen.setdefault((event["step"], event["epoch"]), numbers)
        return list(seen.values())

    def curve(self, name: str, *, scale: float = 1.0) -> list[Curve]:
        """A field of the progress notes over time, a curve for each start."""
        found = []
        for start in self._starts:
            notes = [
                e for e in start.events if e["event"] == "progress" and e.get(name) is not None
            ]
            seconds = [note["time_s"] - self.started for note in notes]
            found.append(Curve(seconds, [scale * note[name] for note in notes]))
        return found

    def curves(self, name: str) -> list[Curve]:
        """A field of the progress notes, over time: one curve per epoch."""
        ends = sorted({event["step"] for event in self.events if event["event"] == "epoch"})
        found: list[Curve] = []
        before: tuple[int, int] | None = None
        for note in self.events:
            if note["event"] == "progress" and note.get(name) is not None:
                epoch = bisect.bisect_right(ends, note["step"])
                if before is None or before[0] != epoch or before[1] > note["step"]:
                    found.append(Curve([], []))
                before = epoch, note["step"]
                found[-1].seconds.append(note["time_s"] - self.started)
                found[-1].values.append(note[name])
        return found

    def largest_of_ready_steps(self, name: str, *, scale: float = 1.0) -> float | None:
        """Largest value of a field of the progress notes, without first steps.

        The first two steps of a fit, and those after an event of apoptosis or a recovery, are made
        ready, which can take a thousand times as long as a step. None where there are no others.
        """
        ready = [event["step"] for event in self.events if event["event"] in _READY]
        values = [
            note[name]
            for note in self.events
            if note["event"] == "progress"
            and not any(note["step"] - note["steps"] - 1 < first <= note["step"] for first in ready)
        ]
        return scale * max(values) if values else None

    def throughput(self) -> list[Curve]:
        """Samples per second between successive progress notes, a curve for each start."""
        found = []
        for start in self._starts:
            notes = [event for event in start.events if event["event"] == "progress"]
            pairs = [
                (a, b)
                for a, b in itertools.pairwise(notes)
                if b["time_s"] > a["time_s"] and b["samples"] >= a["samples"]
            ]
            found.append(
                Curve(
                    [b["time_s"] - self.started for _, b in pairs],
                    [(b["samples"] - a["samples"]) / (b["time_s"] - a["time_s"]) for a, b in pairs],
                )
            )
        return found

    def world_size(self) -> Curve:
        """Number of ranks from each change on, 0 between two starts; the last point is the end."""
        points: list[tuple[float, int]] = []
        known: set[tuple[int, int]] = set()
        for number, start in enumerate(self._starts):
            if number:
                points.append((points[-1][0], 0))
            for event in start.events:
                at = event["time_s"] - self.started
                if event["event"] == "start" and (number, 0) not in known:
                    known.add((number, 0))
                    points.append((at if number else 0.0, event["world_size"]))
                if event["event"] not in ("recovered", "joined"):
                    continue
                if (number, event["generation"]) not in known:
                    known.add((number, event["generation"]))
                    points.append((at, event["world_size_after"]))
            points.append((start.ended - self.started, points[-1][1] if points else 0))
        return Curve([t for t, _ in points], [n for _, n in points])

    def shrinkings(self) -> list[Event]:
        """Events of apoptosis, from the first rank that wrote them."""
        seen: dict[int, Event] = {}
        for event in self.events:
            if event["event"] == "apoptosis":
                seen.setdefault(event["step"], event)
        return list(seen.values())

    def widths(self) -> dict[str, Curve]:
        """Units of each group of layers that apoptosis changed, from each event on."""
        found: dict[str, list[tuple[float, float]]] = {}
        for event in self.shrinkings():
            at = event["time_s"] - self.started
            for change in event["changes"]:
                points = found.setdefault(change["layer"], [(0.0, change["units_from"])])
                if change["kept"]:
                    points.append((at, change["units_to"]))
        for points in found.values():
            points.append((self.ended, points[-1][1]))
        return {
            layer: Curve([t for t, _ in points], [n for _, n in points])
            for layer, points in found.items()
        }

    def lives(self) -> list[Life]:
        """Each rank's part in the run, in order of ranks; one that starts again has several."""
        found: list[Life] = []
        for start in self._starts:
            left = {record["rank"] for record in ranks_left(start.events)}
            losses = _losses_in(start.events)
            found += [
                Life(
                    rank=begun["rank"],
                    begin=begun["time_s"] - self.started,
                    end=losses.get(begun["rank"], start.ended) - self.started,
                    lost=begun["rank"] in losses and begun["rank"] not in left,
                    left=begun["rank"] in left,
                )
                for begun in start.events
                if begun["event"] == "start"
            ]
        return sorted(found, key=lambda life: life.rank)

    @property
    def _starts(self) -> list[Start]:
        return [start for start in starts_of(self.events) if start.events]


def _losses_in(events: Sequence[Event]) -> dict[int, float]:
    """Lost rank → Unix time of its loss, seconds."""
    losses: dict[int, float] = {}
    for event in events:
        if event["event"] in ("recovered", "spare-lost"):
            at: float = event["detect_time_s"] if "detect_time_s" in event else event["time_s"]
            for rank in event["lost"]:
                losses.setdefault(rank, at)
        if event["event"] == "fault" and event["lethal"]:
            losses[event["rank"]] = event["time_s"]
    return losses


def read_run(directory: Path) -> Run:
    """The run whose ``--report`` was *directory*.

    Raises:
        InputError: there is no report.
    """
    wanted = "a report directory of matex run is wanted"
    if not (directory / EVENTS).exists():
        which = f"has no {EVENTS}" if directory.exists() else "is absent"
        raise InputError(
            f"{wanted}. Received: {directory}, which {which}; name the DIR of --report"
        )
    try:
        events = [e for e in read_events(directory / EVENTS) if is_well_formed(e)]
        summary = _read_summary(directory / SUMMARY)
    except (OSError, ValueError) as error:
        raise InputError(
            f"{wanted}. Received: {directory}: {getattr(error, 'strerror', None) or error}"
        ) from None
    if not events:
        raise InputError(f"a run that started is wanted. Received: {directory}: no events")
    return Run(directory=directory, summary=summary, events=events)


def _read_summary(path: Path) -> dict[str, Any]:
    """Summary in *path*; empty if there is none.

    Raises:
        InputError: it is no JSON object, or some of it is none that should be.
    """
    if not path.exists():
        return {}
    wanted = "a summary as matex run writes it is wanted"
    try:
        summary = json.loads(path.read_bytes())
    except ValueError as error:
        raise InputError(f"{wanted}. Received: {path}: {error}") from None
    if not isinstance(summary, dict):
        raise InputError(f"{wanted}. Received: {path}: no JSON object")
    for name in _OBJECTS:
        if not isinstance(summary.get(name, {}), dict):
            raise InputError(f"{wanted}. Received: {path}: its {name} is no JSON object")
    return summary
