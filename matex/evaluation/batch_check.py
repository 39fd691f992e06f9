"""Check of a ``test_step`` on a whole batch: whether the counts of its metrics add up."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from matex import keras_hooks
from matex.errors import NotShareable
from matex.steps.graphs import graph_inspection

__all__ = ["CHANGES", "check_counts", "put_back"]

_CLOSE = 1e-4
CHANGES = "test_step changes variables other than those of its metrics"


def check_counts(model: Any, evaluate: Callable[[Any], None], batch: Any, function: Any) -> None:
    """Check that a step counts twice as much in a *batch* twice as in it once; local.

    Variables are as before afterwards.

    Args:
        evaluate: function that makes the step.
        function: graph of the step.

    Raises:
        NotShareable: its counts do not add up, or it has other effects.
    """
    metrics = model.metrics_variables
    changing = keras_hooks.changing_variables(model)
    graph_inspection.refuse_summaries(function, name="test_step")
    known = [variable.value for variable in (*model.variables, *metrics)]
    foreign = graph_inspection.ForeignVariables(function, known)
    before = [variable.numpy() for variable in metrics]
    others = [variable.numpy() for variable in changing]
    try:
        evaluate(batch)
        once = [variable.numpy() for variable in metrics]
        foreign_changed = foreign.put_back()
        put_back(changing, others)
        if foreign_changed:
            raise NotShareable(CHANGES)
        evaluate(batch)
        twice = [variable.numpy() for variable in metrics]
    finally:
        foreign.put_back()
        for variable, value in zip((*metrics, *changing), (*before, *others), strict=True):
            variable.assign(value)
    for variable, *values in zip(metrics, before, once, twice, strict=True):
        if not _adds_up(*values):
            raise NotShareable(f"{variable.path} does not add up what it counts in batches")


def put_back(variables: Iterable[Any], before: Iterable[np.ndarray]) -> None:
    """Restore *variables* to their values *before*.

    Raises:
        NotShareable: a variable had changed.
    """
    changed = False
    for variable, value in zip(variables, before, strict=True):
        if not np.array_equal(variable.numpy(), value):
            variable.assign(value)
            changed = True
    if changed:
        raise NotShareable(CHANGES)


def _adds_up(before: np.ndarray, once: np.ndarray, twice: np.ndarray) -> bool:
    if before.any():
        return False
    a, b = 2 * once.astype(np.float64), twice.astype(np.float64)
    return bool(np.allclose(a, b, _CLOSE, _CLOSE * np.abs(a).max(initial=0), equal_nan=True))
