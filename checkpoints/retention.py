"""Retention of snapshots, and detection of stale temporary files. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from numbers import Integral

from checkpoints.dtypes import Array

#: Age after which a temporary file of another host, whose processes cannot be checked, is stale.
FOREIGN_STALE_S = 86_400.0


def retained(
    steps: Iterable[int],
    keep_last: int,
    *,
    keep_every: int = 0,
    keep_best: int = 0,
    scores: Mapping[int, float] | None = None,
    written: int | None = None,
) -> set[int]:
    """Choose the steps whose files stay: the union of the steps kept by each rule. Pure.

    Args:
        steps: steps that have files, in any order.
        keep_last: number of steps that stay, counted down from `written`; at least 1.
        keep_every: interval in steps: the first file at or after each multiple of it stays; 0, the
            default, for none.
        keep_best: number of steps with the lowest scores that stay; later steps win ties. 0 by
            default.
        scores: score by step; a missing score or NaN counts as none.
        written: step just written, which always stays. All higher steps stay, too: they may be
            damaged leftovers, which retention does not judge, so they do not count. The highest
            step by default.

    Returns:
        Subset of `steps`.

    Raises:
        ValueError: keep_last is less than 1, another number less than 0, or one is no integer.

    Example:
        >>> sorted(checkpoints.retained(range(0, 1000, 100), 2, keep_every=500))
        [500, 800, 900]
    """
    numbers = {"keep_last": keep_last, "keep_every": keep_every, "keep_best": keep_best}
    for name, number in numbers.items():
        if not isinstance(number, Integral):
            raise ValueError(f"an integer was wanted. Received: {name}={number!r}.")
    if keep_last < 1:
        raise ValueError(
            "at least one snapshot to keep was wanted. "
            f"Received: keep_last={keep_last}. Give 1 or more."
        )
    if min(keep_every, keep_best) < 0:
        raise ValueError(
            "numbers of at least 0 were wanted. "
            f"Received: keep_every={keep_every}, keep_best={keep_best}. Give 0 for none."
        )
    everything = set(steps)
    last = max(everything, default=0) if written is None else written
    upto = sorted((step for step in everything if step <= last), reverse=True)
    newer = {step for step in everything if step > last}
    return (
        newer | set(upto[:keep_last]) | _spread(upto, keep_every) | _best(upto, keep_best, scores)
    )


def _spread(falling: list[int], every: int) -> set[int]:
    if not every:
        return set()
    return set({step // every: step for step in falling if step >= every}.values())


def _best(steps: list[int], count: int, scores: Mapping[int, float] | None) -> set[int]:
    known = scores or {}
    scored = [step for step in steps if step in known and not math.isnan(known[step])]
    return set(sorted(scored, key=lambda step: (known[step], -step))[:count])


def is_stale(*, same_host: bool, process_alive: bool, age_s: float) -> bool:
    """Whether the writer of a temporary file has ended; for another host only its age is known."""
    return not process_alive if same_host else age_s > FOREIGN_STALE_S


def score_in(array: Array | None) -> float:
    """Score that a snapshot holds as *array*; NaN if it holds none. Pure."""
    return float(array) if array is not None and array.shape == () else math.nan
