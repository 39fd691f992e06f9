"""Records of faults and their effects, from the events of all ranks. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import ft
from matex.records.events import Event
from matex.records.lost_ranks import unasked
from matex.records.starts import starts_of

__all__ = ["FIELDS", "fault_records", "restarts_in", "unfired"]


def unfired(
    faults: Iterable[ft.Fault], events: Iterable[Event]
) -> list[tuple[ft.Fault, list[int]]]:
    """Planned faults that never fired, each with the ranks that it did not hit.

    These ranks may have died before, or the run did not reach the step, time or event. The ranks of
    a ``node`` fault are not known, so it counts as fired if it hit any rank.
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


# Fields of a record, in the order of faults.csv.
FIELDS = (
    *("kind", "rank", "step", "at", "overcome", "time_s", "detect_s", "repair_s", "replay_s"),
    *("to_next_step_s", "samples_at_risk", "samples_recomputed", "samples_lost"),
    *("samples_repeated", "world_size_before", "world_size_after", "replaced_by"),
    *("respawn_s", "pause_s"),
    *("state_hash", "replicas_equal"),
)


def restarts_in(events: Iterable[Event]) -> list[Event]:
    """Events of starts that followed the loss of an earlier start."""
    return [event for event in events if event["event"] == "restart"]


def fault_records(events: Iterable[Event]) -> list[dict[str, Any]]:
    """Record of each lost rank, restart, and injected fault that ended no rank. Pure.

    A rank that was asked to leave is not lost.

    ``overcome`` is "in-place" for deaths whose survivors went on, and "restart" for losses after
    which all ranks were started again. A restart counts from the last lethal fault before it that
    was not overcome in place, else from its own beginning; each such fault has a record.

    ``detect_s`` and ``to_next_step_s`` count from the moment at which the fault fired, recorded by
    the rank just before; for a death from outside, whose moment is unknown, from its detection.
    ``repair_s`` is from the first detection, or from the fault if it struck during a repair, to the
    last survivor's repair. The times are differences between events.

    ``samples_at_risk`` are the samples of the step that the rank had to compute and had not handed
    over. The other fields are of the step as a whole, equal for all ranks lost in it: ``replay_s``,
    from the repair to the step's result on the slowest rank, ``samples_recomputed`` by the
    survivors, ``samples_lost`` and ``samples_repeated`` by the step's own sum. ``state_hash`` is of
    weights and optimizer after that step, if ``replicas_equal``. ``replaced_by`` is the spare that
    took the rank's place, at once or before the next step, or the process that was started for it;
    it counts in ``world_size_after``. For such a process ``respawn_s`` is from the death to its
    joining, and ``pause_s`` the time for which other ranks paused for that. A value that was not
    measured, as outside of training steps, is None.
    """
    records: list[dict[str, Any]] = []
    starts = starts_of(events)
    for number, (begun, mine) in enumerate(starts):
        if begun is not None and begun["event"] == "restart":
            records += map(_shaped, _restarted(begun, starts[number - 1][1], mine))
        following = starts[number + 1][0] if number + 1 < len(starts) else None
        was_lost = following is not None and following["event"] == "restart"
        records += _records_of_one_start(mine, recorded=_not_repaired(mine) if was_lost else [])
    return sorted(records, key=lambda record: float(record["time_s"]))


def _not_repaired(events: Iterable[Event]) -> list[Event]:
    """Lethal faults of ranks without which no others went on."""
    events = list(events)
    repaired = {rank for e in events if e["event"] == "recovered" for rank in e["lost"]}
    lethal = [e for e in events if e["event"] == "fault" and e["lethal"]]
    return [e for e in lethal if e["rank"] not in repaired]


def _restarted(restart: Event, before: list[Event], after: list[Event]) -> list[dict[str, Any]]:
    causes = _not_repaired(before)
    since = causes[-1]["time_s"] if causes else restart["time_s"]
    steps = [e["time_s"] for e in after if e["event"] == "first-step" and not e["generation"]]
    sizes = [e["world_size"] for e in before if e["event"] == "start"]
    common = {
        "overcome": "restart",
        "detect_s": restart["time_s"] - since,
        "to_next_step_s": max(steps) - since if steps else None,
        "world_size_before": sizes[0] if sizes else None,
        "world_size_after": restart["ranks"],
    }
    if not causes:
        return [{**common, "kind": "loss", "step": restart["step"], "time_s": since}]
    fields = ("kind", "rank", "step", "at", "time_s")
    return [{**common, **{field: cause[field] for field in fields}} for cause in causes]


def _records_of_one_start(events: list[Event], *, recorded: list[Event]) -> list[dict[str, Any]]:
    fired = [e for e in events if e["event"] == "fault"]
    recoveries = [e for e in events if e["event"] == "recovered"]
    later = _replacements(e for e in events if e["event"] == "joined")
    records: list[dict[str, Any]] = []
    for generation in sorted({e["generation"] for e in recoveries}):
        mine = [e for e in recoveries if e["generation"] == generation]
        detected = min(e["detect_time_s"] for e in mine)
        repaired = max(e["repaired_time_s"] for e in mine)
        steps = _nearest(events, "first-step", generation)
        finished = max((e["time_s"] for e in steps), default=None)
        at_once = _replacements(mine)
        afterwards = sum(rank in later for rank in mine[0]["lost"])
        for rank in unasked(mine[0]):
            cause = next((e for e in reversed(fired) if e["rank"] == rank and e["lethal"]), None)
            since = detected if cause is None else cause["time_s"]
            record = {
                "kind": "death" if cause is None else cause["kind"],
                "rank": rank,
                "step": mine[0]["step"] if cause is None else cause["step"],
                "at": None if cause is None else cause["at"],
                "overcome": "in-place",
                "time_s": since,
                "detect_s": max(0.0, detected - since),
                "repair_s": repaired - max(detected, since),
                "to_next_step_s": None if finished is None else finished - since,
                "world_size_before": mine[0]["world_size_before"],
                "world_size_after": mine[0]["world_size_after"] + afterwards,
                "replaced_by": at_once.get(rank, later.get(rank)),
                **_respawned(events, at_once.get(rank, later.get(rank)), since),
                **_replayed(_nearest(events, "replayed", generation), rank),
                **_state(_nearest(events, "state", generation)),
            }
            records.append(_shaped(record))
    known = {record["rank"] for record in records}
    for event in fired:
        if event not in recorded and not (event["lethal"] and event["rank"] in known):
            records.append(_shaped(event))
    return records


def _replacements(events: Iterable[Event]) -> dict[int, int]:
    """Spare that took the place of each dead rank, by the dead rank."""
    pairs = [(int(dead), spare) for e in events for dead, spare in e.get("joined", {}).items()]
    return {dead: spare for dead, spare in pairs if dead != spare}  # other places are new


def _respawned(events: list[Event], replacement: int | None, since: float) -> dict[str, float]:
    """Times of a process that was started for a rank lost at *since*; empty without one."""
    started = [e for e in events if e["event"] == "respawn" and e["newcomer"] == replacement]
    if not started:
        return {}
    joined = [e["time_s"] for e in events if replacement in e.get("joined", {}).values()]
    paused = [e for e in events if e["event"] == "took-over" and replacement in e["ranks"]]
    times = {"respawn_s": min(joined) - since} if joined else {}
    return times | ({"pause_s": paused[0]["pause_s"]} if paused else {})


def _shaped(record: dict[str, Any]) -> dict[str, Any]:
    return {field: record.get(field) for field in FIELDS}


def _nearest(events: list[Event], name: str, generation: int) -> list[Event]:
    """Events *name* of the first generation, from *generation* on, that has any."""
    after = [e for e in events if e["event"] == name and e["generation"] >= generation]
    nearest = min((e["generation"] for e in after), default=None)
    return [e for e in after if e["generation"] == nearest]


def _replayed(steps: list[Event], rank: int) -> dict[str, Any]:
    mine = [e for e in steps if str(rank) in e["at_risk"]]
    if not mine:
        return {}
    return {
        "replay_s": max(e["seconds"] for e in mine),
        "samples_at_risk": max(e["at_risk"][str(rank)] for e in mine),
        "samples_recomputed": sum(e["recomputed"] for e in mine),
        "samples_lost": max(e["samples_lost"] for e in mine),
        "samples_repeated": max(e["samples_repeated"] for e in mine),
    }


def _state(states: list[Event]) -> dict[str, Any]:
    hashes = {e["hash"] for e in states}
    if not hashes:
        return {}
    return {
        "state_hash": next(iter(hashes)) if len(hashes) == 1 else None,
        "replicas_equal": len(hashes) == 1,
    }
