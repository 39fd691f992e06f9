"""Check that a step with several updates adds up: parts of some rows, exchange by exchange."""

from __future__ import annotations

import contextlib
from typing import Any, NamedTuple

import numpy as np

from matex import keras_hooks
from matex.errors import NotShareable
from matex.sources.interface import GlobalBatch
from matex.steps.auxiliary_part import VALUE
from matex.steps.graphs.graph_inspection import repeated_inputs
from matex.steps.script_code.muted_output import unheard
from matex.steps.script_code.user_code import attempted
from matex.steps.separability.check_rows import CheckRows, telling_rows
from matex.steps.separability.comparison import (
    IF_NONZERO,
    OTHER_ROWS,
    Value,
    find_forgetting,
    values_of,
)
from matex.steps.separability.inner_gradients import computes_with_gradients
from matex.steps.separability.nonzero_state import nonzero_state
from matex.steps.separability.rounded_values import but_rounded
from matex.steps.separability.update_pieces import contributions, pieces_of
from matex.steps.several_updates_step import SeveralUpdatesStep

__all__ = ["find_inseparable_update", "find_inseparable_update_now"]

_UNEVEN = "{} makes an update for some rows of a batch, not for others"


def find_inseparable_update(step: SeveralUpdatesStep, batch: GlobalBatch, *, ranks: int) -> str:
    """Reason for which *step* does not add up on some rows of *batch*; "" if it does. Local.

    Each part of the rows is computed with the sums of the whole, so that every update starts
    from the same weights as in the step. Nothing is changed afterwards.

    Args:
        ranks: number of ranks. One computes whole batches, so that only metrics must add up,
            over steps.
    """
    alone = ranks == 1
    step.checks.note_rows(batch, ranks)
    if alone and not step.counted:
        return ""
    rows = telling_rows(batch)
    try:
        broken = f"{step.name} fails on a part of a batch"
        with keras_hooks.generators_kept(), unheard(), attempted(broken):
            reason = "" if alone else _corrected(step, rows) or _corrected_elsewhere(step, rows)
            return reason or _forgetting(step, rows)
    except NotShareable as reason:
        return str(reason)


def find_inseparable_update_now(step: SeveralUpdatesStep, rows: Any) -> str:
    """Reason for which *step* does not add up over *rows* with the current weights. Local.

    It is "" if it does. Nothing is changed, and nothing is corrected: other ranks try other rows.
    """
    with (
        contextlib.suppress(NotShareable),  # the step itself will fail
        unheard(),
        keras_hooks.generators_kept(host=False),
        attempted(f"{step.name} fails"),
    ):
        return _refuted(step, CheckRows(rows)) or _refuted_by_more(step, CheckRows(rows))
    return ""


def _corrected_elsewhere(step: SeveralUpdatesStep, rows: CheckRows) -> str:
    """:func:`_corrected` where no variable is 0, and in other rows; "" also where that fails."""
    found = _corrected_if_nonzero(step, rows)
    one_for_all = repeated_inputs(step.quiet())
    for where, made in OTHER_ROWS.items():
        other = made(rows.rows, one_for_all)
        if found or other is None:
            continue
        with contextlib.suppress(NotShareable), attempted(f"{step.name} fails"):
            found = _corrected(step, CheckRows(other))
            found = found and found + where
    more = _more_of(step, rows)
    return found or ("" if more is None else _corrected(step, more))


def _more_of(step: SeveralUpdatesStep, rows: CheckRows) -> CheckRows | None:
    """Rows as many as steps have, where that can matter; else None."""
    more = rows.repeated(step.checks.most_rows)
    return more if more is not None and computes_with_gradients(step.quiet()) else None


def _refuted_by_more(step: SeveralUpdatesStep, rows: CheckRows) -> str:
    more = _more_of(step, rows)
    return "" if more is None else _refuted(step, more)


def _corrected_if_nonzero(step: SeveralUpdatesStep, rows: CheckRows) -> str:
    found = ""
    optimizers = step.updates.optimizers
    with (
        contextlib.suppress(NotShareable),  # such values prove nothing
        attempted(f"{step.name} fails"),
        nonzero_state(step.quiet(), optimizers=optimizers, metrics=step.counted),
    ):
        found = _corrected(step, rows)
    return found and found + IF_NONZERO


def _corrected(step: SeveralUpdatesStep, rows: CheckRows) -> str:
    """Reason for which *step* adds up neither as means nor as sums over rows; "" if it does."""
    reason = _summed(step, rows)
    if reason and step.may_be_sums and not step.updates.at_tapes:
        step.exchange_at_tapes()
        reason = _summed(step, rows) and reason
    return reason


def _summed(step: SeveralUpdatesStep, rows: CheckRows) -> str:
    """:func:`_corrected` with gradients exchanged where they are now."""
    finding = _differing(step, rows)
    while finding.can_be_corrected:
        step.add_up(finding.updates, finding.values)
        finding = _differing(step, rows)
    return finding.reason


class _CheckResult(NamedTuple):
    """Findings of a check: why the step does not add up, and which parts may be sums."""

    reason: str
    updates: frozenset[int] = frozenset()
    values: frozenset[str] = frozenset()

    @property
    def can_be_corrected(self) -> bool:
        """Whether the parts that do not add up as means over rows do so as sums."""
        return bool(self.updates or self.values)


def _forgetting(step: SeveralUpdatesStep, rows: CheckRows) -> str:
    """Name of the metric of *step* whose counts do not add up over steps; "" if none."""
    if not step.counted:
        return ""
    last = _last_of(step)
    step.rollback.begin()

    def counted(quiet: Any) -> list[np.ndarray]:
        parts, _ = contributions(step, quiet, rows, (0, rows.count))
        return parts[last]

    try:
        from_zero = counted(step.quiet())
        assert step.layout is not None
        return find_forgetting(
            step.counted,
            step.layout,
            from_zero,
            lambda: counted(step.quiet_going_on()),
            step.tolerance,
        )
    finally:
        step.rollback.end()


def _refuted(step: SeveralUpdatesStep, rows: CheckRows) -> str:
    """Reason for which *step*, which was checked, does not add up over *rows*; "" if it does."""
    made = pieces_of(step, rows)
    if made.is_uneven:
        return _UNEVEN.format(step.name)
    if made.sets_rates_by_rows(step.tolerance):
        return f"{step.name} sets a learning rate by its rows"
    assert step.layout is not None
    for number, layout in enumerate([*step.exchanges.layouts, step.layout]):
        if number in made.whole:
            values = values_of(layout, made.whole[number], made.given(number))
            floored = step.checks.with_floors(values, number)
            wrong = [value for value in floored if value.differs(step.tolerance)]
            for value in but_rounded(step, made, number, wrong):
                return made.sentence(step, value)
    return ""


def _differing(step: SeveralUpdatesStep, rows: CheckRows) -> _CheckResult:
    made = pieces_of(step, rows)
    whole, weights = made.whole, rows.shares
    assert step.layout is not None
    layouts = [*step.exchanges.layouts, step.layout]
    updates: set[int] = set()
    values: set[str] = set()
    reason = ""
    if made.is_uneven:
        return _CheckResult(_UNEVEN.format(step.name))
    for number in range(len(layouts)):
        if number not in whole:  # an update that is not made in every step
            continue
        given = made.given(number)
        wrong = _wrong(step, number, whole[number], given)
        wrong = but_rounded(step, made, number, wrong)
        if not wrong:
            continue
        sums = _sums_among(step, number, wrong, whole[number], given, weights)
        if sums is None:
            reason = reason or made.sentence(step, wrong[0])
            continue
        updates |= {number} if number < _last_of(step) else set()
        values |= sums
    if updates or values:  # values computed from these may be right then
        return _CheckResult(reason, frozenset(updates), frozenset(values))
    if reason:
        return _CheckResult(reason)
    # The exchanged values are equal in all of them; so must be the variables after them.
    for number in whole:
        step.checks.note(values_of(layouts[number], whole[number], [whole[number]]), number)
    step.checked |= set(whole) & set(range(len(step.exchanges.layouts)))
    if found := step.inseparable:
        return _CheckResult(f"{step.name} does not add up over rows: {found}")
    if made.sets_rates_by_rows(step.tolerance):
        return _CheckResult(f"{step.name} sets a learning rate by its rows")
    if any(_differ(made.after, later, step.tolerance) for _, later in made.pieces):
        return _CheckResult(
            f"{step.name} changes a variable by other rows than it updates its weights by"
        )
    return _CheckResult("")


def _last_of(step: SeveralUpdatesStep) -> int:
    """Number of the exchange after the graph."""
    return len(step.exchanges.layouts)


def _sums_among(
    step: SeveralUpdatesStep,
    number: int,
    wrong: list[Value],
    whole: list[np.ndarray],
    given: list[list[np.ndarray]],
    weights: list[float],
) -> set[str] | None:
    """Names of the values of *wrong* that add up without weights; None if some do not.

    For the gradients of an update it is all or none.
    """
    if not step.may_be_sums:
        return None
    bare = [[part / weight for part in parts] for parts, weight in zip(given, weights, strict=True)]
    differing = {value.name for value in _wrong(step, number, whole, bare)}
    if number < _last_of(step):
        return None if differing or number in step.updates.summed else set()
    names = {value.name for value in wrong}
    is_value = all(name.startswith(VALUE) for name in names)
    return names if is_value and not differing & names else None


def _wrong(
    step: SeveralUpdatesStep,
    number: int,
    whole: list[np.ndarray],
    parts: list[list[np.ndarray]],
) -> list[Value]:
    """Values of the exchange *number* that do not add up."""
    assert step.layout is not None
    layout = [*step.exchanges.layouts, step.layout][number]
    values = step.checks.with_floors(values_of(layout, whole, parts), number, known_only=False)
    return [value for value in values if value.differs(step.tolerance)]


def _differ(one: list[np.ndarray], other: list[np.ndarray], tolerance: float) -> bool:
    """Whether variables differ after the same updates."""
    for a, b in zip(one, other, strict=True):
        if a.dtype.kind not in "fiu" or not np.isfinite(a).all():
            continue
        norm = float(np.linalg.norm(a.astype(np.float64)))
        gap = float(np.linalg.norm(a.astype(np.float64) - b.astype(np.float64)))
        if gap > tolerance * norm + 1e-12:
            return True
    return False
