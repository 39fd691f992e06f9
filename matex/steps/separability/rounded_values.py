"""Returned values that are differences of larger numbers, and so known less precisely. Local."""

from __future__ import annotations

import numpy as np

from matex.steps.auxiliary_part import VALUE
from matex.steps.separability.check_rows import CheckRows
from matex.steps.separability.comparison import Value, values_of
from matex.steps.separability.other_rows import nudged_rows
from matex.steps.separability.update_pieces import Pieces, contributions
from matex.steps.several_updates_step import SeveralUpdatesStep

__all__ = ["but_rounded"]


def but_rounded(
    step: SeveralUpdatesStep, made: Pieces, number: int, wrong: list[Value]
) -> list[Value]:
    """*wrong* values of exchange *number*, but for returned ones that differ by rounding alone.

    The mean change of probabilities before a policy's update, say, is a difference that is 0 but
    for rounding. A value may differ by as much as it changes by a millionth of the rows' values.

    Args:
        step: step that is tried.
        made: its contributions of some rows, at once and in pieces.
        number: number of the exchange.
        wrong: values of it that do not add up.
    """
    is_returned = number == len(step.exchanges.layouts) and _is_any_returned(wrong)
    rows = nudged_rows(made.rows.rows) if is_returned else None
    if rows is None:
        return wrong
    nudged = CheckRows(rows, made.rows.parts)
    step.rollback.begin()
    try:
        parts, _ = contributions(step, step.quiet(), nudged, (0, nudged.count), made.whole)
    finally:
        step.rollback.end()
    assert step.layout is not None
    floors = {
        value.name: float(np.linalg.norm(value.whole - value.added))
        for value in values_of(step.layout, made.whole[number], [parts[number]])
        if value.name.startswith(VALUE)
    }
    values = [value._replace(floor=max(value.floor, floors.get(value.name, 0))) for value in wrong]
    return [value for value in values if value.differs(step.tolerance)]


def _is_any_returned(values: list[Value]) -> bool:
    return any(value.name.startswith(VALUE) for value in values)
