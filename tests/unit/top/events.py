"""Events of a small run, for the tests of its view."""

from __future__ import annotations

import json
from typing import Any

from matex.records.events import Event

#: When the run began, Unix time in seconds.
BEGAN_S = 1000.0


def event(time_s: float, rank: int, name: str, **fields: Any) -> Event:
    return {"time_s": BEGAN_S + time_s, "rank": rank, "event": name, **fields}


def starts(ranks: int, *, at_s: float = 0.0, **fields: Any) -> list[Event]:
    """The start of so many ranks, and that they train."""
    shared = {"world_size": ranks, "spares": 0, "host": "h", "ulfm": True, "ends_s": None} | fields
    began = [event(at_s, rank, "start", pid=10 + rank, **shared) for rank in range(ranks)]
    first = [event(at_s, r, "first-step", step=0, generation=0) for r in range(ranks)]
    return began + first


def progress(
    time_s: float, step: int, *, samples: int, loss: float | None = 0.5, ranks: int = 3
) -> Event:
    return event(
        time_s, 0, "progress", step=step, samples=samples, world_size=ranks, steps=10, step_s=0.1,
        exchange_s=0.01, loss=loss,
    )  # fmt: skip


def timing(time_s: float, rank: int, step: int, step_s: float, exchange_s: float) -> Event:
    times = {"step_s": step_s, "exchange_s": exchange_s}
    return event(time_s, rank, "timing", step=step, steps=10, memory=5_000_000, **times)


def recovered(time_s: float, rank: int, *, lost: list[int], **fields: Any) -> Event:
    shared = {"step": 20, "operation": 40, "finished_by_peer": False, "generation": 1, "joined": {}}
    times = {
        "detect_time_s": BEGAN_S + time_s,
        "repaired_time_s": BEGAN_S + time_s + 0.012,
    }
    sizes = {"world_size_before": 3, "world_size_after": 2}
    return event(time_s, rank, "recovered", lost=lost, **(shared | times | sizes | fields))


def fit(time_s: float, rank: int = 0, **fields: Any) -> Event:
    shared = {"fit": 0, "step": 0, "samples": 1000, "batch_size": 64, "epochs": 3}
    begin = {"first_epoch": 0, "cursor": 0}
    return event(time_s, rank, "fit", **(shared | begin | fields))


def lines(events: list[Event]) -> str:
    return "".join(json.dumps(e) + "\n" for e in events)
