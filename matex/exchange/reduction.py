"""Interface of a reduction: a way to sum the vectors of one layout over the members."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

import ft
from matex.exchange.layout import Layout
from matex.exchange.plan import is_sliced
from matex.exchange.route import Route

__all__ = ["Reduction", "ReductionTerms"]


@dataclass(frozen=True, kw_only=True)
class ReductionTerms:
    """Arguments of which a reduction is made.

    Args:
        communicator: communicator of the members.
        layout: layout of the vector.
        is_large: whether a barrier costs less than a second buffer for results.
        chunk: elements of one MPI call; None to choose them by the number of ranks.
        plan: one of :data:`matex.exchange.plan.PLANS`.
        compression: name of a row of :data:`matex.exchange.reductions.REDUCTIONS`; with the rank of
            the factors, for those that have one.
        route_of: function that returns the route of slices among the members.
    """

    communicator: ft.Communicator
    layout: Layout
    is_large: bool
    chunk: int | None = None
    plan: str = "auto"
    compression: str = "none"
    route_of: Callable[[ft.World], Route] = Route.of

    @property
    def is_sliced(self) -> bool:
        """Whether the current members exchange slices instead of an allreduce. Local."""
        world = self.communicator.world
        return is_sliced(
            self.plan, size=world.size, hosts=world.host_count,
            compressed=self.compression != "none",
        )  # fmt: skip

    @property
    def chunk_elements(self) -> int:
        """Elements of one MPI call among the current members. Local."""
        world, itemsize = self.communicator.world, self.layout.dtype.itemsize
        return self.chunk or ft.chunk_elements(itemsize, world.size, hosts=world.host_count)


class Reduction(Protocol):
    """Sum over the members of the vectors of one layout, in numbered operations.

    The exchange owns the vectors. A reduction that sends something else keeps what it makes of
    them, and completes a result when it is read.
    """

    @property
    def result_count(self) -> int:
        """Number of buffers for results: 2 where a peer may need a result during the next sum."""

    @property
    def bytes(self) -> int:
        """Bytes that this rank passes to MPI in one sum."""

    def next_step(self) -> None:
        """Start a new step, which may add what the last sum left over. Local.

        It is not called after a step without a complete sum.
        """

    def next_operation(self) -> None:
        """Keep the newest result, and use another buffer for the next one. Local."""

    def reduce(self, send: np.ndarray, result: np.ndarray, is_whole: Callable[[], bool]) -> None:
        """Sum *send* over the members into *result*; collective.

        The operation is numbered; its result is what a peer is handed after a death.

        Args:
            is_whole: function that tells whether *result* includes every current member.

        Raises:
            ft.PeerFailure: recover, then call it again with the missing rows in *send*.
        """

    def complete(self, result: np.ndarray) -> None:
        """Write into *result* what the newest operation stands for, unless already done. Local."""
