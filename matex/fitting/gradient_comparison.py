"""Comparison of the gradients that the ranks computed from one whole batch, by checksums."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from matex.exchange.checksum import checksum
from matex.fitting.equal_sums import are_finite
from matex.fitting.replica_check import majority
from matex.run.context import RunContext

__all__ = ["Comparison", "compared"]

_ROW = np.dtype([("checksum", "i8"), ("rate", "f8"), ("leaves", "?"), ("spoiled", "?")], align=True)


class Comparison(NamedTuple):
    """Comparison of the ranks' gradients; equal on all ranks.

    ``have_equal_rows`` is whether slices are of the same rows, which alone can be summed;
    ``leaves`` whether some rank has a stop request; ``rate`` the leader's learning rate;
    ``finite`` and ``spoiled`` are the ranks whose gradients are finite, and the others;
    ``majority`` those with equal gradients, if they are more than half.
    """

    have_equal_rows: bool
    are_equal: bool
    leaves: bool
    rate: float
    nbytes: int
    finite: tuple[int, ...]
    spoiled: tuple[int, ...]
    majority: tuple[int, ...]


def compared(
    run: RunContext, rows: Sequence[np.ndarray], gradients: list[np.ndarray], rate: np.ndarray
) -> Comparison:
    """Comparison of what the ranks have computed; collective, and recovers by itself.

    Args:
        rows: rows of the slices among the gradients.
        rate: learning rate of this rank.
    """
    spoiled = not are_finite(gradients)
    mine = np.array(
        [
            (checksum(rows), 0.0, False, False),
            (checksum(gradients), rate, run.stop_request.is_requested, spoiled),
        ],
        _ROW,
    )
    run.steps.faults.during("in-exchange")
    gathered = run.communicator.allgather(mine.view(np.uint8))
    places, values = gathered.rows.view(_ROW).reshape(-1, 2).T
    ranks = np.array(gathered.ranks)
    have_equal_rows = len(set(places["checksum"].tolist())) == 1
    checksums = values["checksum"].tolist()
    return Comparison(
        have_equal_rows=have_equal_rows,
        are_equal=have_equal_rows and len(set(checksums)) == 1,
        leaves=bool(values["leaves"].any()),
        rate=float(values["rate"][0]),  # the first row is the leader's
        nbytes=mine.nbytes,
        finite=tuple(ranks[~values["spoiled"]].tolist()),
        spoiled=tuple(ranks[values["spoiled"]].tolist()),
        majority=majority(gathered.ranks, checksums),
    )
