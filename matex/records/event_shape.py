"""Whether an event has the fields that are read of it, of the right kinds. Pure.

A damaged file, or one that another program wrote, may hold events that have not.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeGuard

__all__ = ["NEEDED", "OPTIONAL", "is_event", "is_number", "is_well_formed"]

Kind = Callable[[Any], bool]

# A time of day can be made of times before this one, which is far away.
_END_OF_TIMES = 1e11  # Unix seconds


def is_number(value: object) -> bool:
    """Whether *value* is a number, also infinity or NaN, and no integer beyond all floats."""
    return isinstance(value, float) or (_is_int(value) and abs(value) <= sys.float_info.max)


def is_event(value: object) -> bool:
    """Whether *value* has the three fields of all events."""
    return (
        isinstance(value, dict)
        and _is_time(value.get("time_s"))
        and _is_int(value.get("rank"))
        and isinstance(value.get("event"), str)
    )


def is_well_formed(event: Mapping[str, Any]) -> bool:
    """Whether *event* has all fields that are read of it, each of its kind."""
    name = event["event"]
    if name == "fit" and "epochs" not in event:  # every rank computes whole batches
        return True
    needed, optional = NEEDED.get(name, {}), OPTIONAL.get(name, {})
    return all(field in event and kind(event[field]) for field, kind in needed.items()) and all(
        field not in event or kind(event[field]) for field, kind in optional.items()
    )


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and _is_no_bool(value) and abs(value) < _END_OF_TIMES


def _is_int(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and _is_no_bool(value)


def _is_pid(value: object) -> bool:
    return _is_int(value) and 0 < value < 1 << 31


def _is_count(value: object) -> bool:
    return _is_int(value) and value > 0


def _is_no_bool(value: object) -> bool:
    """Whether *value* is no bool, which Python counts among integers."""
    return not isinstance(value, bool)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_bool(value: object) -> bool:
    return isinstance(value, bool)


def _is_list(value: object) -> bool:
    """Whether *value* is a list of ranks."""
    return isinstance(value, list) and all(map(_is_int, value))


def _is_object(value: object) -> bool:
    """Whether *value* is an object of ranks by ranks."""
    return isinstance(value, dict) and all(
        place.isdecimal() and _is_int(spare) for place, spare in value.items()
    )


def _are_changes(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(change, dict) and isinstance(change.get("kept"), bool) for change in value
    )


def _or_null(kind: Kind) -> Kind:
    return lambda value: value is None or kind(value)


_ENDED: dict[str, Kind] = {"reason": _or_null(_is_text)}

#: Event -> fields that it must have, for those of which fields are read.
NEEDED: dict[str, dict[str, Kind]] = {
    "start": {"pid": _is_pid, "host": _is_text, "world_size": _is_int},
    "resumed": {"step": _is_int},
    "death": {"reason": _is_text},
    "left": {"step": _or_null(_is_int)},
    "finished": _ENDED,
    "stopped": _ENDED,
    "failed": _ENDED,
    "told": {"signal": _is_text},
    "restart": {"number": _is_int, "reason": _is_text, "ranks": _is_int},
    "grow": {"world_size": _is_int, "ranks": _is_int},
    "short": {"world_size": _is_int, "wanted": _is_int},
    "fit": {
        "step": _is_int,
        "samples": _or_null(_is_int),
        "batch_size": _is_count,
        "epochs": _is_int,
        "first_epoch": _is_int,
        "cursor": _is_int,
    },
    "epoch": {"epoch": _is_int, "step": _is_int},
    "progress": {
        "step": _is_int,
        "samples": _is_int,
        "world_size": _is_int,
        "step_s": is_number,
        "exchange_s": is_number,
        "loss": _or_null(is_number),
    },
    "timing": {"step": _is_int, "step_s": is_number, "exchange_s": is_number, "memory": _is_int},
    "weights-settled": {"leader": _is_int, "ranks": _is_list},
    "apoptosis": {
        "epoch": _is_int,
        "changes": _are_changes,
        "parameters": _is_int,
        "parameters_before": _is_int,
    },
    "fault": {"fault": _is_text, "lethal": _is_bool},
    "fault-not-fired": {"fault": _is_text},
    "recovered": {
        "generation": _is_int,
        "step": _is_int,
        "lost": _is_list,
        "detect_time_s": _is_time,
        "repaired_time_s": _is_time,
        "world_size_before": _is_int,
        "world_size_after": _is_int,
    },
    "joined": {"joined": _is_object, "world_size_after": _is_int},
    "respawn": {"newcomer": _is_int, "host": _is_text},
    "admitted": {"newcomer": _is_int, "host": _is_text, "seconds": is_number},
    "took-over": {"ranks": _is_list, "pause_s": is_number},
    "respawn-failed": {"newcomer": _is_int, "reason": _is_text},
    "spare-lost": {"step": _is_int, "lost": _is_list},
    "nonfinite": {"step": _is_int, "ranks": _is_list},
    "healed": {"source": _is_list},
    "straggler": {"ratio": is_number, "evicted": _is_bool},
    "resize": {
        "request": _is_text,
        "leaving": _is_list,
        "world_size": _is_int,
        "refused": _or_null(_is_text),
    },
    "checkpoint": {"tier": _is_text, "step": _is_int, "seconds": is_number},
    "checkpoint-failed": {"step": _is_int, "reason": _is_text},
}

#: Event -> fields that it may lack, as those of earlier versions do.
OPTIONAL: dict[str, dict[str, Kind]] = {
    "start": {"boot": _is_text, "spares": _is_int, "ends_s": _or_null(_is_time)},
    "resumed": {"generation": _is_int},
    "recovered": {"left": _is_list, "joined": _is_object},
    "joined": {"generation": _is_int},
    "spare-lost": {"left": _is_list},
}
