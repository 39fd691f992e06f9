"""Error feedback: rounding errors of one step's sums, added in the next step."""

from __future__ import annotations

import numpy as np

from matex.exchange.route import Range, Route

__all__ = ["Residuals"]


class Residuals:
    """Residuals on this rank, of the slices that it serves.

    The servers of a slice make both of its roundings: of the host's sum before it goes to another
    host, and of the whole sum before it goes to all. A step that is replayed adds the residuals of
    the previous step again. Residuals of a dead rank, and of slices that change their server after
    a death, are lost: at most one rounding error. They are not in checkpoints.

    Error feedback: Karimireddy et al., arXiv:1901.09847; in both directions: Tang et al.,
    arXiv:1905.05957.

    Args:
        size: number of elements that are rounded.
        lasting: number of elements, the first ones, that mean the same in the next step; the
            residuals of the others are dropped.
    """

    def __init__(self, size: int, *, lasting: int) -> None:
        self._lasting = lasting
        self.kept = np.zeros(size, np.float32)
        """Residuals of the previous step, which are added in this one."""
        self.taken = np.zeros(size, np.float32)
        """Residuals of this step."""
        self._slices: list[Range] | None = None

    def next_step(self) -> None:
        """Use the residuals of the finished step in the next one."""
        self.kept, self.taken = self.taken, self.kept
        self.kept[self._lasting :] = 0

    def serve(self, route: Route, buckets: list[Range]) -> None:
        """Drop the residuals of slices that this rank does not serve on *route*."""
        served = [route.slice(bucket, route.index) for bucket in buckets] if route.serves else []
        if served == self._slices:
            return
        self._slices = served
        for remainders in (self.kept, self.taken):
            before = remainders.copy()
            remainders[:] = 0
            for part in served:
                remainders[part.start : part.stop] = before[part.start : part.stop]
