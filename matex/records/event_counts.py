"""Counts of a job whose ranks could not write its summary, as its events tell them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matex.records.events import Event
from matex.records.scalars import NOT_METRICS

__all__ = ["event_counts"]


def event_counts(events: Sequence[Event]) -> dict[str, Any]:
    """Counts of the whole job, by the names that ``summary.json`` gives them.

    Samples are those of the newest ``progress``, which comes after some steps only, and no more are
    expected: that the others were not trained is no loss of theirs. Counts that no event tells are
    missing.

    Args:
        events: events of the whole job, in order of time.
    """
    epochs = [event for event in events if event["event"] == "epoch"]
    counts: dict[str, Any] = {"epochs": len({event["step"] for event in epochs})}
    if epochs:
        counts["metrics"] = _metrics(epochs[-1])
    used = [event["samples"] for event in events if event["event"] == "progress"]
    fits = [event for event in events if event["event"] == "fit" and "whole" not in event]
    if used:
        counts |= {"samples_used": used[-1], "samples_expected": used[-1]}
    if fits:
        counts["strategy"] = fits[-1]["strategy"]
    counts |= _parameters(events)
    return counts


def _parameters(events: Sequence[Event]) -> dict[str, int]:
    """Parameters of the last model when its first fit began, and now; empty if none are told.

    A later fit that begins with another number than the one before ended with is of another model.
    A fit is told of again where its numbers change, and by a start that goes on in it.
    """
    counts: dict[str, int] = {}
    number: int | None = None
    for event in events:
        if event["event"] not in ("fit", "apoptosis") or "parameters" not in event:
            continue
        size: int = event["parameters"]
        if event["event"] == "fit" and event["fit"] != number:
            number = event["fit"]
            if size != counts.get("parameters_end"):
                counts["parameters_start"] = size
        counts.setdefault("parameters_start", size)
        counts["parameters_end"] = size
    return counts


def _metrics(event: Event) -> dict[str, float]:
    return {
        name.removeprefix("metric_") if name.removeprefix("metric_") in NOT_METRICS else name: value
        for name, value in event.items()
        if name not in NOT_METRICS and isinstance(value, int | float)
    }
