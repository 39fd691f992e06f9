"""The factors for the learning rate when the batch grows with the ranks. Pure."""

from __future__ import annotations

from math import sqrt

__all__ = ["rate_factor"]


def rate_factor(scaling: str, ranks: int, *, epochs_done: float, warm_up: float) -> float:
    """Factor of a step, equal on all ranks, as a function of the progress of training.

    ``linear`` is for SGD (Goyal et al., arXiv:1706.02677), ``sqrt`` keeps the variance
    of an update. It climbs from 1 in the first *warm_up* epochs, and falls at once
    when ranks are lost, because the batch does.

    Args:
        ranks: the living ranks that make the step.
        epochs_done: from the start of training, fractions included.
    """
    if scaling == "none":
        return 1.0
    full = float(ranks) if scaling == "linear" else sqrt(ranks)
    if epochs_done >= warm_up:
        return full
    return 1 + (full - 1) * epochs_done / warm_up
