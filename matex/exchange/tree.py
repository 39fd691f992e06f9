"""Exchange whose sums follow a binary tree over virtual workers, whichever ranks compute them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

import ft
from matex.exchange.layout import Header, Layout
from matex.exchange.step_exchange import StepExchange
from matex.exchange.subtree_sum import SubtreeSum
from matex.partition.worker_tree import Node

__all__ = ["TreeExchange"]


class TreeExchange(StepExchange):
    """An exchange of the sums of subtrees, summed along the tree.

    Args:
        communicator: communicator of the members.
        layout: layout of the vector.
        faults: fault injector, which may strike before, during and after the exchange.
        check_finite: whether to check gradients for NaN and infinity before they spread.
    """

    def __init__(
        self,
        communicator: ft.Communicator,
        layout: Layout,
        *,
        faults: ft.Injector,
        check_finite: bool = True,
    ) -> None:
        self._sum = SubtreeSum(communicator, layout)
        super().__init__(communicator, layout, self._sum, faults=faults, check_finite=check_finite)

    def exchange(
        self,
        own: Mapping[Node, np.ndarray],
        header: Header,
        *,
        nodes: Sequence[Sequence[Node]],
        workers: int,
    ) -> None:
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
        self._sum.set_subtrees(own, nodes=nodes, workers=workers)
        try:
            self._before()
            self._send[:] = 0
            self._send_views[-1][-len(header) :] = header
            gradients = [self.layout.gradients_in(vector) for vector in own.values()]
            self._exchange(all(np.isfinite(vector).all() for vector in gradients))
        except BaseException as error:
            self.error = error
            raise
