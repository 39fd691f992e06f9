"""What happened, as JSON lines: every rank appends to one file, and any program can follow it.

A line holds ``time_s`` (Unix time, seconds), ``rank`` (original), ``event`` and
that event's own fields. Each line is one ``write`` to a file opened for
appending, so lines of several ranks do not mix on a POSIX file system.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

__all__ = ["Event", "EventLog", "fault_records", "read_events", "write_json"]

Event = dict[str, Any]


class EventLog:
    """Local to a rank. With ``path=None`` events are kept in memory only."""

    def __init__(self, path: Path | None, rank: int) -> None:
        self._rank = rank
        self._file = (
            None if path is None else os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        )
        self._path = path
        self._own: list[Event] = []

    def write(self, event: str, **fields: Any) -> None:
        record = {"time_s": time.time(), "rank": self._rank, "event": event, **fields}
        self._own.append(record)
        if self._file is not None:
            os.write(self._file, (json.dumps(record) + "\n").encode())

    def all(self) -> list[Event]:
        """Everybody's events so far where there is a file, else this rank's own."""
        return self._own if self._path is None else read_events(self._path)


def read_events(path: Path) -> list[Event]:
    """All whole lines of an event file, in order of time; an unfinished last line is left out."""
    events: list[Event] = []
    with path.open() as file:
        for line in file:
            if line.endswith("\n"):
                events.append(json.loads(line))
    return sorted(events, key=lambda event: float(event["time_s"]))


def fault_records(events: Iterable[Event]) -> list[dict[str, Any]]:
    """One record for each rank lost and for each injected fault that took nobody: pure.

    ``detect_s`` and ``to_next_step_s`` count from the moment the fault was set
    off, which the rank recorded just before; for a death from outside, unknown
    here, they count from its detection. ``repair_s`` is from the first detection,
    or from the fault where it struck a repair under way, to the last survivor's
    repair. The times are differences between events.
    """
    events = list(events)
    fired = [e for e in events if e["event"] == "fault"]
    recoveries = [e for e in events if e["event"] == "recovered"]
    steps = [e for e in events if e["event"] == "first-step"]
    records: list[dict[str, Any]] = []
    for generation in sorted({e["generation"] for e in recoveries}):
        mine = [e for e in recoveries if e["generation"] == generation]
        after = [e for e in steps if e["generation"] >= generation]
        detected = min(e["detect_time_s"] for e in mine)
        repaired = max(e["repaired_time_s"] for e in mine)
        finished = _first_step(after, generation)
        for rank in mine[0]["lost"]:
            cause = next((e for e in reversed(fired) if e["rank"] == rank and e["lethal"]), None)
            since = detected if cause is None else cause["time_s"]
            records.append(
                {
                    "kind": "death" if cause is None else cause["kind"],
                    "rank": rank,
                    "step": mine[0]["step"] if cause is None else cause["step"],
                    "at": None if cause is None else cause["at"],
                    "time_s": since,
                    "detect_s": max(0.0, detected - since),
                    "repair_s": repaired - max(detected, since),
                    "to_next_step_s": None if finished is None else finished - since,
                    "world_size_before": mine[0]["world_size_before"],
                    "world_size_after": mine[0]["world_size_after"],
                }
            )
    told = {record["rank"] for record in records}
    for event in fired:
        if not (event["lethal"] and event["rank"] in told):
            record = {key: event[key] for key in ("kind", "rank", "step", "at", "time_s")}
            records.append({**record, **dict.fromkeys(_MEASURED)})
    return sorted(records, key=lambda record: float(record["time_s"]))


_MEASURED = (
    "detect_s",
    "repair_s",
    "to_next_step_s",
    "world_size_before",
    "world_size_after",
)


def _first_step(after: list[Event], generation: int) -> float | None:
    """When the last of the ranks that finished the first step after this repair had done so."""
    if not after:
        return None
    nearest = min(e["generation"] for e in after)
    times = [e["time_s"] for e in after if e["generation"] == nearest]
    return float(max(times))


def write_json(path: Path, content: Any) -> None:
    """Write *content* so that a reader sees the whole file or none."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    with aside.open("w") as file:
        json.dump(content, file, indent=2)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)
