"""Exchange whose sums follow a binary tree over virtual workers, whichever ranks compute them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ft.pieces import most_elements
from matex.exchange.host import HostExchange
from matex.exchange.layout import Header
from matex.partition.worker_tree import Node, folded

__all__ = ["TreeExchange"]

_HEADER = len(Header._fields)
_WHOLE = 1.0  # marks a part of the result that has arrived, and is of all ranks


class TreeExchange(HostExchange):
    """A host exchange of the sums of subtrees, summed along the tree.

    Each rank sends every other rank its share of the sums' vectors; the owner of a share sums it,
    and sends the result to all: an alltoall and an allgather. A rank with one subtree sends as much
    as in a ring allreduce. Headers, small integers, are summed over ranks.
    """

    def exchange(
        self,
        own: Mapping[Node, np.ndarray],
        header: Header,
        *,
        nodes: Sequence[Sequence[Node]],
        workers: int,
    ) -> list[np.ndarray]:
        """Sum the vectors of all subtrees; collective.

        Args:
            own: sums of this rank's subtrees, in the order of *nodes*; vectors of the layout.
            header: header of this rank's contribution.
            nodes: subtrees of each member of the world, in their order.
            workers: number of virtual workers with samples in this step.

        Raises:
            ft.PeerFailure: recover, then call it again with the missing subtrees added.
            TrainingError: the sum is not over this step's samples, or not finite.
        """
        self._own, self._nodes, self._workers = own, nodes, workers
        try:
            self._before()
            self._send[:] = 0
            self._send_views[-1][-_HEADER:] = header
            gradients = [self.layout.gradients_in(vector) for vector in own.values()]
            return self._exchange(all(np.isfinite(vector).all() for vector in gradients))
        except BaseException as error:
            self.error = error
            raise

    def _reduce(self, result: np.ndarray) -> None:
        size, length, dtype = self._communicator.world.size, self.layout.size, self.layout.dtype
        share = -(-length // size)
        header = self._send_views[-1][-_HEADER:]
        own = np.zeros((len(self._own), size, share), dtype)
        for vector, padded in zip(self._own.values(), own, strict=True):
            padded.reshape(-1)[:length] = vector
        counts = [len(nodes) for nodes in self._nodes]
        header_at = self.layout.header_at(Header._fields[0])
        # Of one call's elements, those of a rank: all subtrees sent to all, or received of all.
        width = most_elements(dtype.itemsize, arrays=max(size * max(counts), sum(counts)))

        def call(comm: Any) -> None:
            is_whole = True
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
                is_whole = is_whole and bool((sums[:, -1] == _WHOLE).all())
            result[header_at : header_at + _HEADER] = headers
            if not is_whole:
                result[self.layout.header_at("ranks")] = 0

        self._communicator.attempt(result, call, self._is_whole, untouched=True)

    def _added(self, pieces: Sequence[np.ndarray], share: int) -> np.ndarray:
        """This rank's share of the sum of all subtrees."""
        found: dict[Node, np.ndarray] = {}
        for nodes, piece in zip(self._nodes, pieces, strict=True):
            for number, node in enumerate(nodes):
                found[node] = piece[number * share : (number + 1) * share]
        total = folded(found, self._workers, np.add)
        assert len(total) == 1, "the subtrees of all ranks make one tree"
        return next(iter(total.values()))
