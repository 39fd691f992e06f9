"""Exchange whose sums follow a binary tree over virtual workers, whichever ranks compute them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from matex.exchange.host import HostExchange
from matex.exchange.layout import Header
from matex.partition.worker_tree import Node, folded

__all__ = ["TreeExchange"]

_HEADER = len(Header._fields)
_HERE = 1.0  # marks that a rank's part of the result has arrived


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
        size, length = self._communicator.world.size, self.layout.size
        share = -(-length // size)
        header = self._send_views[-1][-_HEADER:]
        message = np.zeros((size, len(self._own) * share + _HEADER), self.layout.dtype)
        for number, vector in enumerate(self._own.values()):
            padded = np.zeros(size * share, self.layout.dtype)
            padded[:length] = vector
            message[:, number * share : (number + 1) * share] = padded.reshape(size, share)
        message[:, -_HEADER:] = header
        sizes = [len(nodes) * share + _HEADER for nodes in self._nodes]
        cuts = list(itertools.accumulate(sizes, initial=0))
        header_at = self.layout.header_at(Header._fields[0])

        def call(comm: Any) -> None:
            got = np.zeros(cuts[-1], message.dtype)
            comm.Alltoallv([message, [message.shape[1]] * size], [got, sizes])
            pieces = [got[lo:hi] for lo, hi in itertools.pairwise(cuts)]
            mine = np.append(self._added(pieces, share), message.dtype.type(_HERE))
            shares = np.zeros((size, share + 1), message.dtype)
            comm.Allgather(mine, shares)
            result[:] = np.ascontiguousarray(shares[:, :-1]).reshape(-1)[:length]
            headers = np.add.reduce([piece[-_HEADER:] for piece in pieces])
            result[header_at : header_at + _HEADER] = headers
            if not (shares[:, -1] == _HERE).all():  # MPI reported a rank's death as success
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
