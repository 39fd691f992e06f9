"""Error feedback: what rounding took from one step's sums, for the next step."""

from __future__ import annotations

import numpy as np

from matex.exchange.route import Range, Route

__all__ = ["Residuals"]


class Residuals:
    """The remainders that this rank holds, of the slices whose server it is.

    Both roundings of a slice are made by its servers: that of the host's sum before it goes to
    another host, and that of the whole sum before it goes to all. A step that is replayed adds the
    remainders of the step before it again. Those of a dead rank, and of slices that go to another
    server after a death, are lost: at most what one rounding took. They are not in checkpoints.

    Error feedback: Karimireddy et al., arXiv:1901.09847; on both ways: Tang et al.,
    arXiv:1905.05957.

    Args:
        size: number of elements that are rounded.
    """

    def __init__(self, size: int) -> None:
        self.kept = np.zeros(size, np.float32)
        """Remainders of the step before, which are added in this one."""
        self.taken = np.zeros(size, np.float32)
        """Remainders of this step."""
        self._slices: list[Range] | None = None

    def next_step(self) -> None:
        """Make the remainders of the step that is over those that are added."""
        self.kept, self.taken = self.taken, self.kept

    def serve(self, route: Route, buckets: list[Range]) -> None:
        """Forget the remainders of slices that this rank does not serve on *route*."""
        served = [route.slice(bucket, route.index) for bucket in buckets] if route.serves else []
        if served == self._slices:
            return
        self._slices = served
        for remainders in (self.kept, self.taken):
            before = remainders.copy()
            remainders[:] = 0
            for part in served:
                remainders[part.start : part.stop] = before[part.start : part.stop]
