"""Check that a step with one update adds up: some rows at once, and in parts."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from matex import keras_hooks
from matex.errors import NotShareable
from matex.exchange import Header
from matex.keras_hooks.loss_scale import lowered_loss_scales
from matex.partition.spans import Span
from matex.sources.interface import GlobalBatch
from matex.steps.control import Control
from matex.steps.graphs.graph_inspection import ForeignVariables
from matex.steps.script_code.muted_output import unheard
from matex.steps.script_code.python_reads import reads_noted
from matex.steps.script_code.script_state import are_same
from matex.steps.script_code.user_code import attempted
from matex.steps.separability.branches import takes_branch_by_rows
from matex.steps.separability.check_rows import CheckRows, telling_rows
from matex.steps.separability.comparison import (
    IF_NONZERO,
    OTHER_ROWS,
    are_finite,
    find_forgetting,
    values_of,
)
from matex.steps.separability.inner_gradients import computes_with_gradients
from matex.steps.separability.nonzero_state import nonzero_state
from matex.steps.step import Step

__all__ = ["find_inseparable", "find_inseparable_now"]


def find_inseparable(step: Step, batch: GlobalBatch, *, ranks: int) -> str:
    """Name the part of *step* that does not add up on some rows of *batch*; "" if none. Local.

    Nothing is changed, random number generators included.

    Args:
        ranks: number of ranks. One computes whole batches, so that only metrics must add up.
    """
    alone = ranks == 1
    step.checks.note_rows(batch, ranks)
    lo, hi = batch.span
    if hi - lo < (2 if step.has_slots else 1):  # slots are for no more rows than a batch has
        return ""
    if not (step.may_count if alone else step.may_vary):
        return ""
    try:
        # An eager step runs the script's own code, whose output is not for the user here.
        broken = f"{step.name} fails on a part of a batch"
        with (
            keras_hooks.generators_kept(host=step.may_draw),
            unheard(),
            attempted(broken),
            lowered_loss_scales(step.optimizers) as lower,
        ):
            return _StepComparison(step, telling_rows(batch), lower, alone=alone).find()
    except NotShareable as reason:
        return str(reason)


def find_inseparable_now(step: Step, rows: Any) -> str:
    """Name the part of *step* that does not add up over *rows* with the current weights. Local.

    It is "" if everything does, and for a step that runs eagerly, or calls Python: it would run
    the script's own code, which may count its calls, in the middle of training. Nothing is changed.
    """
    if not step.may_vary or step.may_draw:
        return ""
    with (
        contextlib.suppress(NotShareable),  # the step itself will fail
        unheard(),
        keras_hooks.generators_kept(host=False),
        attempted(f"{step.name} fails"),
        lowered_loss_scales(step.optimizers) as lower,
    ):
        return _StepComparison(step, CheckRows(rows), lower, alone=False).find_again()
    return ""


class _StepComparison:
    """Comparison of a step's contributions from a few rows; no variable is changed. Local.

    Args:
        step: step to be checked.
        rows: some rows of a batch.
        lower: function that lowers the scales of losses, see :func:`lowered_loss_scales`.
        alone: whether only metrics must add up.
    """

    def __init__(
        self, step: Step, rows: CheckRows, lower: Callable[[], bool], *, alone: bool
    ) -> None:
        self._step, self._rows, self._lower, self._alone = step, rows, lower, alone
        self._whole = (0, rows.count)
        self._contribution, self._known = step.quiet()
        self._eager = step.dry_run()

    def find(self) -> str:
        """Name the part of the step that does not add up; "" if none."""
        if self._eager is not None:
            try:
                return self._find(lambda: self._eager is not None and self._eager.has_assigned)
            finally:
                self._eager.end()
        if not self._alone and takes_branch_by_rows(self._contribution):
            return f"{self._step.name} takes a branch by the values of rows"
        foreign = ForeignVariables(self._contribution, self._known)
        try:
            return self._find(foreign.put_back)
        finally:
            foreign.put_back()

    def find_again(self) -> str:
        """Name the part of the step that does not add up now, though it did; "" if none."""
        foreign = ForeignVariables(self._contribution, self._known)
        try:
            found = self._differing(self._made(self._whole), first=False)
            return found or self._differing_in_more_rows(first=False)
        finally:
            foreign.put_back()

    def _find(self, put_back: Callable[[], bool]) -> str:
        whole = self._made(self._whole)
        if put_back() and not self._alone:
            return (
                f"{self._step.name} changes a variable that neither the model nor its optimizer "
                "knows"
            )
        found = (
            self._differing_again(whole)
            or self._in_python()
            or self._differing(whole)
            or self._forgetting(whole)
        )
        assert self._step.layout is not None
        self._step.checks.note(values_of(self._step.layout, whole, [whole]))
        if found or self._alone:
            return found
        if self._step.inseparable:
            return f"{self._step.name} does not add up over rows: {self._step.inseparable}"
        found = self._differing_if_nonzero() or self._differing_in_other_rows()
        return found or self._differing_in_more_rows()

    def _made(self, part: Span, by: Callable[..., Any] | None = None) -> list[np.ndarray]:
        lo, hi = part
        rows, denominators = float(self._rows.count), self._step.denominators(self._rows.rows)
        control = Control((hi - lo) / rows, float(lo), rows, Header(), [part], denominators)
        cut = self._rows.cut(part)
        with contextlib.nullcontext() if self._eager is None else self._eager.run(draws_on=True):
            parts = (by or self._contribution)(cut, keras_hooks.constant(control.array()))
        return [np.asarray(part).astype(np.float64) for part in parts]

    def _differing_again(self, whole: list[np.ndarray]) -> str:
        """Name the part of the step that differs in another computation of the same rows."""
        step = self._step
        if not step.may_draw or self._alone:
            return ""
        assert step.layout is not None
        for value in values_of(step.layout, whole, [self._made(self._whole)]):
            if value.differs(step.tolerance):
                return (
                    f"{step.name} draws random numbers without a SeedGenerator: the {value.name} "
                    f"is {value.figures} in two computations from the same rows"
                )
        return ""

    def _in_python(self) -> str:
        """Say that the script's Python keeps or reads what depends on the rows; "" if neither."""
        if self._eager is None or self._alone:
            return ""
        name, kept, read = self._step.name, [], []
        for part in (self._whole, *self._rows.parts):
            with reads_noted() as values:
                self._made(part)
            kept.append(self._eager.kept)
            read.append(values)
        if not all(are_same(kept[0], other) for other in kept[1:]):
            return f"{name} keeps in Python what it computes from its rows"
        is_alike = all(are_same(read[0], other) for other in read[1:])
        if not is_alike or self._step.makes_arrays_of_rows:
            return f"{name} reads in Python what it computes from its rows"
        # A condition may be the same for these rows, and not for others.
        if any(value.dtype == bool for value in read[0]) and self._step.searched_graph is None:
            return f"{name} takes a branch in Python by the value of a tensor"
        return ""

    def _differing(self, whole: list[np.ndarray], *, first: bool = True) -> str:
        """Name the part of the step that is not the sum over parts of the rows.

        Args:
            whole: contribution of all rows.
            first: whether the step has not been used yet. True by default.
        """
        step, rows = self._step, self._rows
        parts = [*map(self._made, rows.parts)]
        while not are_finite(whole, *parts) and self._lower():
            whole, parts = self._made(self._whole), [*map(self._made, rows.parts)]
        assert step.layout is not None
        values = values_of(step.layout, whole, parts)
        # In rows that a trial has made up a trained model may be certain of its answer, and its
        # gradients no more than rounding.
        for value in step.checks.with_floors(values, known_only=not first):
            if value.differs(step.tolerance) and (value.counts or not self._alone):
                return (
                    f"{step.name} does not add up over rows: the {value.name} is {value.figures} "
                    f"{rows}"
                )
        return ""

    def _forgetting(self, whole: list[np.ndarray]) -> str:
        """Name the metric of the step whose counts do not add up over steps."""
        step = self._step
        if not step.may_count:
            return ""
        assert step.layout is not None
        going_on = step.quiet_going_on()
        again = functools.partial(self._made, self._whole, going_on)
        return find_forgetting(step.counted, step.layout, whole, again, step.tolerance)

    def _differing_if_nonzero(self) -> str:
        """Name the part that differs where no variable is 0; "" also where that cannot be tried."""
        step, graph = self._step, self._step.searched_graph
        if graph is None:
            return ""
        found = ""
        with (
            contextlib.suppress(NotShareable),  # such values prove nothing
            attempted(f"{step.name} fails"),
            nonzero_state(graph, optimizers=step.optimizers, metrics=step.counted),
        ):
            found = self._differing(self._made(self._whole))
        return found and found + IF_NONZERO

    def _differing_in_other_rows(self) -> str:
        """Name the part that differs in other rows; "" also where they cannot be tried."""
        for where, made in OTHER_ROWS.items():
            if (rows := made(self._rows.rows)) is None:
                continue
            with contextlib.suppress(NotShareable), attempted(f"{self._step.name} fails"):
                if found := self._differing_in(CheckRows(rows)):
                    return found + where
        return ""

    def _differing_in_more_rows(self, *, first: bool = True) -> str:
        """Name the part that differs in as many rows as steps have, where that can matter."""
        graph, more = self._step.searched_graph, self._rows.repeated(self._step.checks.most_rows)
        if more is None or graph is None or not computes_with_gradients(graph):
            return ""
        return self._differing_in(more, first=first)

    def _differing_in(self, rows: CheckRows, *, first: bool = True) -> str:
        other = _StepComparison(self._step, rows, self._lower, alone=False)
        return other._differing(other._made(other._whole), first=first)
