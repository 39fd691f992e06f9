"""Sum of vectors along a binary tree over virtual workers, whichever ranks hold its parts."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import ft
from ft.pieces import most_elements
from matex.exchange.layout import Header, Layout
from matex.partition.worker_tree import Node, folded

__all__ = ["SubtreeSum"]

_HEADER = len(Header._fields)
_WHOLE = 1.0  # marks a part of the result that has arrived, and is of all ranks


class SubtreeSum:
    """Reduction of the sums of subtrees; see :class:`matex.exchange.reduction.Reduction`.

    Each rank sends every other rank its share of the sums' vectors; the owner of a share sums it,
    and sends the result to all: an alltoall and an allgather. A rank with one subtree sends as much
    as in a ring allreduce. Headers, small integers, are summed over ranks.

    Args:
        communicator: communicator of the members.
        layout: layout of the vectors.
    """

    result_count = 1  # it is written to when all members have begun the next sum

    def __init__(self, communicator: ft.Communicator, layout: Layout) -> None:
        self._communicator = communicator
        self._layout = layout
        self._own: Mapping[Node, np.ndarray] = {}
        self._nodes: Sequence[Sequence[Node]] = ()
        self._workers = 0

    @property
    def bytes(self) -> int:
        return self._layout.size * self._layout.dtype.itemsize

    def set_subtrees(
        self, own: Mapping[Node, np.ndarray], *, nodes: Sequence[Sequence[Node]], workers: int
    ) -> None:
        """Set the vectors of the next sum, beside which only the header is sent. Local.

        Args:
            own: sums of this rank's subtrees, in the order of *nodes*.
            nodes: subtrees of each member of the world, in their order.
            workers: number of virtual workers with samples in this step.
        """
        self._own, self._nodes, self._workers = own, nodes, workers

    def next_step(self) -> None:
        pass

    def next_operation(self) -> None:
        pass

    def complete(self, result: np.ndarray) -> None:
        pass

    def reduce(self, send: np.ndarray, result: np.ndarray, is_whole: Callable[[], bool]) -> None:
        layout, size = self._layout, self._communicator.world.size
        length, dtype = layout.size, layout.dtype
        share = -(-length // size)
        header_at = layout.header_at(Header._fields[0])
        header = send[header_at : header_at + _HEADER]
        own = np.zeros((len(self._own), size, share), dtype)
        for vector, padded in zip(self._own.values(), own, strict=True):
            padded.reshape(-1)[:length] = vector
        counts = [len(nodes) for nodes in self._nodes]
        # Of one call's elements, those of a rank: all subtrees sent to all, or received of all.
        width = most_elements(dtype.itemsize, arrays=max(size * max(counts), sum(counts)))

        def call(comm: Any) -> None:
            is_complete = True
            for at in range(0, share, width):
                piece = own[:, :, at : at + width]
                columns = piece.shape[2]
                message = np.empty((size, len(own) * columns + _HEADER), dtype)
                message[:, :-_HEADER] = piece.transpose(1, 0, 2).reshape(size, -1)
                message[:, -_HEADER:] = header
                cuts = [0, *itertools.accumulate(count * columns + _HEADER for count in counts)]
                sizes = [hi - lo for lo, hi in itertools.pairwise(cuts)]
                got = np.zeros(cuts[-1], dtype)
                comm.Alltoallv([message, [message.shape[1]] * size], [got, sizes])
                received = [got[lo:hi] for lo, hi in itertools.pairwise(cuts)]
                headers = np.add.reduce([each[-_HEADER:] for each in received])
                # MPI may report a rank's death as success: what lacks its part is no sum.
                mark = _WHOLE if Header(*headers.tolist()).ranks == size else 0
                sums = np.zeros((size, columns + 1), dtype)
                comm.Allgather(np.append(self._added(received, columns), dtype.type(mark)), sums)
                for place, row in enumerate(sums[:, :-1]):
                    target = result[place * share + at : min((place + 1) * share, length)]
                    target[:columns] = row[: target.size]
                is_complete = is_complete and bool((sums[:, -1] == _WHOLE).all())
            result[header_at : header_at + _HEADER] = headers
            if not is_complete:
                result[layout.header_at("ranks")] = 0

        self._communicator.attempt(result, call, is_whole, untouched=True)

    def _added(self, pieces: Sequence[np.ndarray], share: int) -> np.ndarray:
        """This rank's share of the sum of all subtrees."""
        found: dict[Node, np.ndarray] = {}
        for nodes, piece in zip(self._nodes, pieces, strict=True):
            for number, node in enumerate(nodes):
                found[node] = piece[number * share : (number + 1) * share]
        total = folded(found, self._workers, np.add)
        assert len(total) == 1, "the subtrees of all ranks make one tree"
        return next(iter(total.values()))
