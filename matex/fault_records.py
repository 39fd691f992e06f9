"""What each fault was and did, put together from the events of all ranks. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import ft
from matex.events import Event

__all__ = ["fault_records", "unfired"]


def unfired(
    faults: Iterable[ft.Fault], events: Iterable[Event]
) -> list[tuple[ft.Fault, list[int]]]:
    """The faults that were planned and never set off, each with the ranks it never struck.

    Those ranks may have died before, or the run did not come to the step, time or event.
    Of a ``node`` fault the ranks are not known, so it counts as fired when any rank was hit.
    """
    fired = Counter((e["fault"], e["rank"]) for e in events if e["event"] == "fault")
    texts = {text for text, _ in fired}
    left: list[tuple[ft.Fault, list[int]]] = []
    for fault in faults:
        spared = []
        for rank in fault.ranks:
            if fired[fault.text, rank]:
                fired[fault.text, rank] -= 1
            else:
                spared.append(rank)
        if spared or (not fault.ranks and fault.text not in texts):
            left.append((fault, spared))
    return left


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
