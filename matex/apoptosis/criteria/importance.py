"""Criteria that use derivatives of the loss: each unit has an importance, and none takes over.

Let z be the gate of a unit, by which it is multiplied where it is read, and w the weights that
multiply it there, so w dL/dw = dL/dz. The unit of the smallest importance goes first:

``taylor``: the mean over the rows of (dL/dz)^2, with L the loss of a row: the first-order
importance of a group of parameters, or of a gate, in Molchanov et al., "Importance Estimation for
Neural Network Pruning" (arXiv:1906.10771), with rows in place of its batches.

``oba``: |w (H w)_w / 2 - g w|, with g and H the gradient and the Hessian of the mean loss by the
weights that multiply any unit of any group, and (H w)_w the elements for this unit of its product
with all of them. These are the shares of the units in the second-order expansion of the loss when
all go, each summed over the unit's coupled parameters, as in Sun et al., "Optimal Brain Apoptosis"
(arXiv:2502.17941). The product is exact, elements between units and between layers included.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from matex.apoptosis.criteria.criterion import Criterion, Derivatives
from matex.apoptosis.group_statistics import GreedyRemoval, GroupStatistics, Limits, Removal

__all__ = ["OBA", "TAYLOR"]


def _squares(*batch: Any) -> list[np.ndarray | None]:
    """The sums of (dL/dz)^2; see :class:`Derivatives`."""
    from matex.apoptosis.criteria.derivatives import squares  # which imports TensorFlow

    return squares(*batch)


def _expansion(*batch: Any) -> list[np.ndarray | None]:
    """The sums of g w and of w (H w); see :class:`Derivatives`."""
    from matex.apoptosis.criteria.derivatives import expansion  # which imports TensorFlow

    return expansion(*batch)


def _mean_square(sums: np.ndarray) -> np.ndarray:
    (result,) = sums
    return result


def _second_order(sums: np.ndarray) -> np.ndarray:
    first, second = sums
    result: np.ndarray = np.abs(0.5 * second - first)
    return result


def _remove_by_importance(statistics: GroupStatistics, limits: Limits, seed: int) -> Removal:
    """The removal of the units of least importance; pure.

    The cost of a unit is its share of the importance of all.
    """
    scores = statistics.importance
    assert scores is not None, "derivatives are taken before units are chosen"
    greedy = GreedyRemoval(len(scores), limits)
    if not np.isfinite(scores).all():
        return greedy.removal  # of a network that has diverged nothing can be said
    total = max(float(scores.sum()), 1e-300)
    while (unit := greedy.pick(scores)) is not None:
        if not greedy.remove(unit, float(scores[unit]) / total):
            break
    return greedy.removal


TAYLOR = Criterion(
    name="taylor",
    choose=_remove_by_importance,
    derivatives=Derivatives(
        orders="derivative", parts=1, of_batch=_squares, importance=_mean_square
    ),
)
OBA = Criterion(
    name="oba",
    choose=_remove_by_importance,
    derivatives=Derivatives(
        orders="first and second derivatives",
        parts=2,
        of_batch=_expansion,
        importance=_second_order,
    ),
)
