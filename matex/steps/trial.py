"""Whether a train step adds up: contributions of two parts of a few rows to that of all of them.

What is shared among ranks is right only where the loss is a mean over the rows of a
batch, and where metrics count rows. A loss of the user's own may be anything, so it is
tried out before the first update.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from matex.exchange import Header
from matex.feeds.source import GlobalBatch
from matex.steps.step import Control, Step

__all__ = ["problem"]

_ROWS, _CUT = 8, 3

_ROUNDING = 1e-6  # of float32, over some operations


def problem(step: Step, batch: GlobalBatch) -> str:
    """What of *step* does not add up on the first rows of *batch*; "" where all does. Local.

    Steps with random or batch statistics differ by nature, and are not tried.
    """
    lo, hi = batch.span
    rows = min(_ROWS, hi - lo)
    if rows < 2 or step.is_random:
        return ""
    cut = lo + min(_CUT, rows - 1)
    whole, *parts = (
        _contribution(step, batch, start, end, rows)
        for start, end in ((lo, lo + rows), (lo, cut), (cut, lo + rows))
    )
    layout = step.layout
    assert layout is not None
    names = [segment.name for segment in layout.gradients]
    # Gradients that are zero but for rounding, such as those of an attention's key bias, differ
    # by all that they are: no difference counts that is nothing beside the largest gradient.
    floor = _ROUNDING * max((float(np.linalg.norm(part)) for part in whole[:-1]), default=0.0)
    for name, gradient, *pieces in zip(names, whole[:-1], *(p[:-1] for p in parts), strict=True):
        if _differs(gradient, pieces, step.tolerance, floor):
            return f"the {name}"
    sizes = np.cumsum(layout.tail_sizes)[:-1]
    tails = [np.split(part[-1], sizes)[len(layout.means) : -1] for part in (whole, *parts)]
    for segment, increment, *pieces in zip(layout.sums, *tails, strict=True):
        if _differs(increment, pieces, step.tolerance):
            return f"the {segment.name}"
    return ""


def _contribution(step: Step, batch: GlobalBatch, lo: int, hi: int, rows: int) -> list[np.ndarray]:
    salt = float(lo - batch.span[0])
    control = Control(weight=(hi - lo) / rows, salt=salt, header=Header())
    parts = step.contribution(batch.rows([(lo, hi)]), control.array())
    return [np.asarray(part).astype(np.float64) for part in parts]


def _differs(
    whole: np.ndarray, parts: Sequence[np.ndarray], tolerance: float, floor: float = 1e-12
) -> bool:
    scale = sum(float(np.linalg.norm(part)) for part in (whole, *parts))
    if not np.isfinite(scale):
        return False  # the step itself is going to tell
    return bool(np.linalg.norm(whole - sum(parts)) > tolerance * scale + floor)
