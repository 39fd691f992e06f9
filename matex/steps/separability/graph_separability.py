"""Reasons in the graph of a step for which parts of a batch do not add up."""

from __future__ import annotations

from typing import Any

from matex.steps.separability.nonlinear_sums import nonlinear_in_sums
from matex.steps.separability.row_mixing import mixed_rows

__all__ = ["inseparable_in"]


def inseparable_in(function: Any, gradients: list[Any] | None = None) -> str:
    """The reason why a result of *function* does not add up over rows, now or later. Local.

    It is "" if all do.

    Args:
        function: concrete function of a batch and a control vector.
        gradients: tensors of its graph; by default those that are exchanged in the graph.
    """
    return nonlinear_in_sums(function, gradients) or mixed_rows(function, gradients)
