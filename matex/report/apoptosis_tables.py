"""The tables about apoptosis in the page of a report: events, groups of units, layers. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from matex.records.events import Event

__all__ = ["TextTable", "events_table", "groups_table", "left_alone_table"]


class TextTable(NamedTuple):
    """A table of texts: headings, and rows with as many cells."""

    headings: list[str]
    rows: list[list[str]]


def events_table(events: Sequence[Event]) -> TextTable:
    """Table of events in totals, with the bound on changed predictions beside the measured ones."""
    headings = [
        "after epoch", "groups", "units", "parameters", "FLOPs", "held-out loss before", "after",
        "predicted otherwise, at most", "seconds",
    ]  # fmt: skip
    return TextTable(headings, [_totals(event) for event in events])


def _totals(event: Event) -> list[str]:
    changes = event["changes"]
    kept = [change for change in changes if change["kept"]]
    gone = sum(change["units_from"] - change["units_to"] for change in kept)
    return [
        str(event["epoch"]),
        f"{len(kept)} of {len(changes)}",
        f"-{gone:,}" if gone else "0",
        f"{event['parameters']:,}",
        f"{event['flops']:.6g}",
        f"{event['loss_before']:.6g}",
        f"{event['loss_after']:.6g}",
        "" if event["at_risk"] is None else f"{event['at_risk']:.1%}",
        f"{event['seconds']:.6g}",
    ]


def groups_table(events: Sequence[Event]) -> TextTable:
    """Units of each group at first and after each event that was to remove some of them.

    A cell says so if the group was kept because the held-out loss would have risen too far.
    """
    groups: dict[str, list[str]] = {}
    for number, event in enumerate(events):
        for change in event["changes"]:
            at_first = [str(change["units_from"]), *[""] * len(events)]
            row = groups.setdefault(change["layer"], at_first)
            row[1 + number] = str(change["units_to"]) if change["kept"] else "stays"
    headings = ["group", "units at first", *(f"after epoch {event['epoch']}" for event in events)]
    return TextTable(headings, [[name, *row] for name, row in groups.items()])


def left_alone_table(events: Sequence[Event]) -> TextTable:
    """The layers of which nothing can go, each once, and why."""
    reasons: dict[str, str] = {}
    for event in events:
        reasons.update(event.get("left_alone", {}))
    return TextTable(["layer", "why it stays"], [[name, why] for name, why in reasons.items()])
