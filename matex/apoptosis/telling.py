"""The record of an event in the report, and its line for the user. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matex.apoptosis.outcome import Outcome

__all__ = ["left_alone", "line_of", "record_of"]


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
    """The line that the user sees of an event."""
    parts = [
        f"{c.layer} {c.units_from} -> {c.units_to} (cost {c.cost:.2g})"
        if c.kept
        else f"{c.layer} stays {c.units_from}, as its loss would be {c.loss:.4f}"
        for c in outcome.changes
    ]
    limit = "" if outcome.loss_allowed is None else f" (at most {outcome.loss_allowed:.4f})"
    risk = "" if outcome.at_risk is None else f", at most {outcome.at_risk:.1%} predicted otherwise"
    return (
        f"{', '.join(parts) or 'nothing to remove'}; held-out loss {outcome.loss_before:.4f} -> "
        f"{outcome.loss_after:.4f}{limit}{risk}; parameters {outcome.parameters[0]:,} -> "
        f"{outcome.parameters[1]:,}"
    )


def left_alone(reasons: Mapping[str, str], parameters: Mapping[str, int], total: int) -> list[str]:
    """The layers of which nothing can go, each with its share of the parameters, and why.

    Args:
        reasons: text, by the name of the layer, or of the function of ``keras.ops``.
        parameters: number of those of each layer of the model, by its name.
        total: number of parameters of the model.
    """
    return [
        f"{name} ({parameters.get(name, 0) / max(1, total):.1%} of the parameters), {why}"
        for name, why in reasons.items()
    ]
