"""Check that a step with one update adds up: a few rows at once, and in two parts."""

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
from matex.sources.interface import GlobalBatch
from matex.steps.branches import takes_branch_by_rows
from matex.steps.control import Control
from matex.steps.graph_inspection import ForeignVariables
from matex.steps.nonzero_state import nonzero_state
from matex.steps.separability import (
    CUT,
    IF_NONZERO,
    OTHER_ROWS,
    are_finite,
    find_forgetting,
    telling_rows,
    values_of,
)
from matex.steps.silence import unheard
from matex.steps.step import Step
from matex.steps.user_code import attempted

__all__ = ["find_inseparable", "find_inseparable_now"]


def find_inseparable(step: Step, batch: GlobalBatch, *, alone: bool = False) -> str:
    """Name the part of *step* that does not add up on some rows of *batch*; "" if none. Local.

    Nothing is changed, random number generators included.

    Args:
        alone: whether there is one rank, which computes whole batches, so that only its metrics
            must add up; False by default.
    """
    lo, hi = batch.span
    if hi - lo < (
        2 if step.embedding_rows.used else 1
    ):  # slots are for no more rows than a batch has
        return ""
    if not (step.may_count if alone else step.may_vary):
        return ""
    try:
        # An eager step runs the script's own code, whose output is not for the user here.
        broken = "train_step fails on a part of a batch"
        with (
            keras_hooks.generators_kept(host=step.may_draw),
            unheard(),
            attempted(broken),
            lowered_loss_scales(step.optimizers) as lower,
        ):
            return _StepTrial(step, telling_rows(batch), lower, alone=alone).find()
    except NotShareable as reason:
        return str(reason)


def find_inseparable_now(step: Step, rows: Any) -> str:
    """Name the part of *step* that does not add up over *rows* with the current weights. Local.

    It is "" if everything does, and for a step that runs eagerly: it would run the script's own
    Python code, which may count its calls, in the middle of training. Nothing is changed.
    """
    if not step.may_vary or step.runs_eagerly:
        return ""
    with (
        contextlib.suppress(NotShareable),  # the step itself will fail
        keras_hooks.generators_kept(host=step.may_draw),
        attempted("train_step fails"),
        lowered_loss_scales(step.optimizers) as lower,
    ):
        return _StepTrial(step, rows, lower, alone=False).find_again()
    return ""


class _StepTrial:
    """Comparison of a step's contributions from a few rows; no variable is changed. Local.

    Args:
        step: step to be checked.
        rows: rows of a batch.
        lower: function that lowers the scales of losses, see :func:`lowered_loss_scales`.
        alone: whether only metrics must add up.
    """

    def __init__(self, step: Step, rows: Any, lower: Callable[[], bool], *, alone: bool) -> None:
        self._step, self._rows, self._lower, self._alone = step, rows, lower, alone
        self._count = keras_hooks.row_count(keras_hooks.flatten(rows)[0])
        self._cut = min(CUT, self._count - 1)
        self._contribution, self._known = step.quiet()

    def find(self) -> str:
        """Name the part of the step that does not add up; "" if none."""
        if not hasattr(self._contribution, "captured_inputs"):  # it runs eagerly
            return self._find(lambda: False)
        if not self._alone and takes_branch_by_rows(self._contribution):
            return "train_step takes a branch by the values of rows"
        foreign = ForeignVariables(self._contribution, self._known)
        try:
            return self._find(foreign.put_back)
        finally:
            foreign.put_back()

    def find_again(self) -> str:
        """Name the part of the step that does not add up now, though it did; "" if none."""
        foreign = ForeignVariables(self._contribution, self._known)
        try:
            return self._differing(self._made(0, self._count), first=False)
        finally:
            foreign.put_back()

    def _find(self, put_back: Callable[[], bool]) -> str:
        whole = self._made(0, self._count)
        if put_back() and not self._alone:
            return "train_step changes a variable that neither the model nor its optimizer knows"
        found = self._differing_again(whole) or self._differing(whole) or self._forgetting(whole)
        assert self._step.layout is not None
        self._step.checks.note(values_of(self._step.layout, whole, [whole]))
        if found or self._alone:
            return found
        if self._step.inseparable:
            return f"train_step does not add up over rows: {self._step.inseparable}"
        return self._differing_if_nonzero() or self._differing_in_other_rows()

    def _made(self, lo: int, hi: int, by: Callable[..., Any] | None = None) -> list[np.ndarray]:
        part = keras_hooks.map_structure(lambda x: keras_hooks.cut_rows(x, lo, hi), self._rows)
        rows, denominators = float(self._count), self._step.denominators(self._rows)
        control = Control((hi - lo) / rows, float(lo), rows, Header(), [(lo, hi)], denominators)
        parts = (by or self._contribution)(part, keras_hooks.constant(control.array()))
        return [np.asarray(part).astype(np.float64) for part in parts]

    def _differing_again(self, whole: list[np.ndarray]) -> str:
        """Name the part of the step that differs in another computation of the same rows."""
        step = self._step
        if not step.may_draw or self._alone:
            return ""
        assert step.layout is not None
        for value in values_of(step.layout, whole, [self._made(0, self._count)]):
            if value.differs(step.tolerance):
                return (
                    f"train_step draws random numbers without a SeedGenerator: the {value.name} is "
                    f"{value.figures} in two computations from the same rows"
                )
        return ""

    def _differing(self, whole: list[np.ndarray], *, first: bool = True) -> str:
        """Name the part of the step that is not the sum over two parts of the rows.

        Args:
            whole: contribution of all rows.
            first: whether the step has not been used yet. True by default.
        """
        step, cut, count = self._step, self._cut, self._count
        parts = [self._made(0, cut), self._made(cut, count)]
        while not are_finite(whole, *parts) and self._lower():
            whole, parts = self._made(0, count), [self._made(0, cut), self._made(cut, count)]
        assert step.layout is not None
        values = list(values_of(step.layout, whole, parts))
        for value in values if first else step.checks.with_floors(values):
            if value.differs(step.tolerance) and (value.counts or not self._alone):
                return (
                    f"train_step does not add up over rows: the {value.name} is {value.figures} "
                    f"for {count} rows at once and for {cut} and {count - cut} of them added up"
                )
        return ""

    def _forgetting(self, whole: list[np.ndarray]) -> str:
        """Name the metric of the step whose counts do not add up over steps."""
        step = self._step
        if not step.may_count:
            return ""
        assert step.layout is not None
        going_on = step.quiet_going_on()
        again = functools.partial(self._made, 0, self._count, going_on)
        return find_forgetting(step.counted, step.layout, whole, again, step.tolerance)

    def _differing_if_nonzero(self) -> str:
        """Name the part that differs where no variable is 0; "" also where that cannot be tried."""
        step, graph = self._step, self._step.searched_graph
        if graph is None:
            return ""
        found = ""
        with (
            contextlib.suppress(NotShareable),  # such values prove nothing
            attempted("train_step fails"),
            nonzero_state(graph, optimizers=step.optimizers, metrics=step.counted),
        ):
            found = self._differing(self._made(0, self._count))
        return found and found + IF_NONZERO

    def _differing_in_other_rows(self) -> str:
        """Name the part that differs in other rows; "" also where they cannot be tried."""
        for where, made in OTHER_ROWS.items():
            rows = made(self._rows)
            if rows is None:
                continue
            with contextlib.suppress(NotShareable), attempted("train_step fails"):
                other = _StepTrial(self._step, rows, self._lower, alone=False)
                if found := other._differing(other._made(0, other._count)):
                    return found + where
        return ""
