"""Immutable records that the communicator returns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ft.views import Purpose
from ft.world import Member, World

__all__ = ["Gathered", "Pending", "Recovery"]


@dataclass(frozen=True, kw_only=True)
class Recovery:
    """View change, as returned by :meth:`ft.Communicator.recover`.

    Attributes:
        operation: number of the operation that failed on this rank.
        finished: whether that operation is complete now, with the result of a peer; if False it
            must be made again.
        lost: members that have died or were left behind.
        before, after: worlds before and after the view change.
        detect_time_s, repaired_time_s: times of detection and of the end of the repair, as
            ``time.time()``, seconds.
        replaced: pairs of original ranks: a lost rank, of this or an earlier recovery, and the
            spare that has become a member in its place.
        agreed_purpose: purpose for which all members came.
        at_same_operation: whether all members had completed the same operations.
        admitted: newcomers that wait in reserve from now on.

    Example:
        >>> before = ft.World(members=(ft.Member(rank=0, host="a", pid=1),
        ...                            ft.Member(rank=1, host="a", pid=2)), rank=0)
        >>> recovery = ft.Recovery(
        ...     operation=7, finished=False, lost=before.members[1:], before=before,
        ...     after=before.of([0]), detect_time_s=10.0, repaired_time_s=10.25)
        >>> [member.rank for member in recovery.lost], recovery.repair_s
        ([1], 0.25)
    """

    operation: int
    finished: bool
    lost: tuple[Member, ...]
    before: World
    after: World
    detect_time_s: float
    repaired_time_s: float
    replaced: tuple[tuple[int, int], ...] = ()
    agreed_purpose: Purpose = Purpose.RECOVER
    at_same_operation: bool = False
    admitted: tuple[Member, ...] = ()

    @property
    def repair_s(self) -> float:
        """Seconds from the detection to the end of the repair."""
        return self.repaired_time_s - self.detect_time_s


@dataclass(frozen=True, kw_only=True)
class Pending:
    """Participants of the next operation, and which of them have died; equal on all survivors.

    Survivors hold equal values whether or not they noticed a failure in the same operation. Work
    is divided among ``expected``; the work of ``lost`` is divided among the remaining ranks.

    Attributes:
        operation: number of the next operation.
        expected: original ranks that were alive when the operation could first have been started. A
            spare has the position of the rank that it replaced, so that no other rank's work
            changes.
        lost: expected ranks that died since.
        out_of_step: whether at the last repair, possibly without a death, some members were one
            operation behind and were given its result. Until the next operation completes, members
            disagree about which point-to-point messages have been sent, so none may be started: see
            :attr:`p2p_unsafe`.
        repairs: number of repairs when the operation could first have been started. Messages under
            way at a repair are lost.

    Example:
        >>> pending = ft.Pending(operation=4, expected=(0, 1, 2), lost=(1,))
        >>> [rank for rank in pending.expected if rank not in pending.lost]
        [0, 2]
        >>> pending.p2p_unsafe
        True
    """

    operation: int
    expected: tuple[int, ...]
    lost: tuple[int, ...]
    out_of_step: bool = False
    repairs: int = 0

    @property
    def p2p_unsafe(self) -> bool:
        """Whether a peer may lack its part of a message that is started before the operation."""
        return self.out_of_step or bool(self.lost)


@dataclass(frozen=True, kw_only=True)
class Gathered:
    """Rows of an allgather, equal on all ranks; ``gathered[rank]`` is the row of a rank.

    Attributes:
        ranks: original rank of each row.
        rows: array of shape (ranks, ...), ``rows[i]`` from ``ranks[i]``.

    Example:
        >>> gathered = ft.Gathered(ranks=(0, 2), rows=np.array([[1, 2], [3, 4]]))
        >>> gathered[2].tolist()
        [3, 4]
    """

    ranks: tuple[int, ...]
    rows: np.ndarray

    def __getitem__(self, rank: int) -> np.ndarray:
        return np.asarray(self.rows[self.ranks.index(rank)])
