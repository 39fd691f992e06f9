"""Record of an event for the report, and its line and table for the user. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from matex.apoptosis.outcome import Change, Outcome

__all__ = [
    "goal_is_met",
    "is_over",
    "kept_whole",
    "left_alone",
    "line_of",
    "made_by_its_class",
    "no_event",
    "record_of",
    "table_of",
]

# Names in a line, and characters of the name of a group.
_NAMED, _WIDEST = 4, 40


def record_of(outcome: Outcome) -> dict[str, Any]:
    """The record of an event that the report keeps."""
    return {
        "changes": [change._asdict() for change in outcome.changes],
        "loss_before": outcome.loss_before,
        "loss_after": outcome.loss_after,
        "loss_allowed": outcome.loss_allowed,
        "at_risk": outcome.at_risk,
        "parameters": outcome.parameters[1],
        "parameters_before": outcome.parameters[0],
        "flops": outcome.flops[1],
        "flops_before": outcome.flops[0],
        "left_alone": outcome.left_alone,
    }


def line_of(outcome: Outcome) -> str:
    """Line about an event, with totals over all groups."""
    before, after = outcome.parameters
    limit = "" if outcome.loss_allowed is None else f" (at most {outcome.loss_allowed:.4f})"
    risk = "" if outcome.at_risk is None else f", at most {outcome.at_risk:.1%} predicted otherwise"
    loss = f"held-out loss {outcome.loss_before:.4f} -> {outcome.loss_after:.4f}{limit}"
    if not outcome.has_loss:
        loss = "no held-out loss limited it (the data have no y, or the model no loss of it)"
    return (
        f"{outcome.totals}; parameters {before:,} -> {after:,} "
        f"(-{1 - after / max(before, 1):.1%}); {loss}{risk}"
    )


def no_event(first: int, last: int, *, begun: int, epochs: int) -> str:
    """Line about a fit in which no event can happen; "" if one can.

    Args:
        first: epoch after which the first event may happen.
        last: epoch after which the last event may happen.
        begun: number of epochs before this fit.
        epochs: number of the last epoch of this fit.
    """
    if max(first, begun + 1) <= min(last, epochs):
        return ""
    until = f"not after epoch {last}" if last > 0 else "not in its last epochs"
    return (
        f"apoptosis holds no event in this fit, which ends with epoch {epochs}: events may come "
        f"from epoch {first} on, but {until}; more epochs, or "
        "matex.Apoptosis(first_epoch=, last_epoch=), make room for them"
    )


def goal_is_met(measure: str, gone: float) -> str:
    """Line about a fit that needs no more events: so much of *measure* is *gone*."""
    return (
        f"apoptosis holds no more events in this fit: its goal is met, {gone:.1%} of the {measure} "
        "that it began with are gone"
    )


def is_over(epoch: int, flops: float) -> str:
    """Line about the end of all events after *epoch*, at *flops* per row."""
    return (
        f"apoptosis is over after epoch {epoch}: it brings little now, and a network of "
        f"{flops:,.0f} FLOPs a row is no faster for being smaller; with every=2 it would go on"
    )


def made_by_its_class(name: str) -> str:
    """The line about files of a smaller model that is not functional, of the class *name*."""
    return (
        f"a file that {name}.save writes from now on cannot be loaded: the class makes its "
        "layers at their first sizes; save keras.Model(inputs, model.call(inputs)) instead"
    )


def table_of(changes: Sequence[Change], *, has_loss: bool) -> list[str]:
    """The groups of an event as lines of a table; none without groups.

    Args:
        changes: changes of the groups.
        has_loss: whether a held-out loss was measured.
    """
    if not changes:
        return []
    rows = [("group", "units", "cost", "held-out loss", "")]
    for change in changes:
        units = f"{change.units_from} -> {change.units_to}" if change.kept else change.units_from
        stays = "" if change.kept else "stays"
        loss = f"{change.loss:.4f}" if has_loss else "none"
        rows.append((_short(change.layer), str(units), f"{change.cost:.2g}", loss, stays))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if number in (0, 4) else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def kept_whole(changes: Sequence[Change], told: Collection[str]) -> tuple[list[str], str]:
    """Groups that lose no unit in an event, and the line about those not in *told*.

    Returns:
        Names of these, and the line, empty where there are none.
    """
    names = [change.layer for change in changes if not change.kept and change.layer not in told]
    if not names:
        return [], ""
    return names, f"{_listed(names)}: without some of them the held-out loss would rise too far"


def left_alone(reasons: Mapping[str, str], parameters: Mapping[str, int], total: int) -> list[str]:
    """Lines about layers that cannot lose units, one per reason, with their share of parameters.

    Args:
        reasons: text, by the name of the layer, or of the function of ``keras.ops``.
        parameters: number of parameters of each layer, by name.
        total: number of parameters of the model.
    """
    alike: dict[str, list[str]] = {}
    for name, why in reasons.items():
        alike.setdefault(why, []).append(name)
    shares = {
        why: sum(parameters.get(name, 0) for name in names) / max(1, total)
        for why, names in alike.items()
    }
    return [
        f"{_listed(names)} ({shares[why]:.1%} of the parameters), {why}"
        for why, names in alike.items()
    ]


def _listed(names: Sequence[str]) -> str:
    """Text that lists *names*, shortened if there are many."""
    shown = [_short(name) for name in names]
    if len(shown) > _NAMED + 1:
        shown = [*shown[:_NAMED], f"{len(names) - _NAMED} more"]
    *others, last = shown
    return f"{', '.join(others)} and {last}" if others else last


def _short(name: str) -> str:
    """The *name* of a group of layers joined by +, in which some stand for all of many."""
    first, *others = name.split("+")
    return name if len(name) <= _WIDEST or not others else f"{first}+({len(others)} more)"
