"""What the communicator tells: immutable values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ft.views import Purpose
from ft.world import Member, World

__all__ = ["Gathered", "Pending", "Recovery"]


@dataclass(frozen=True, kw_only=True)
class Recovery:
    """What one call of :meth:`Communicator.recover` found and did.

    ``finished`` says whether the operation that failed *here* is complete now,
    its result taken over from a peer; otherwise it must be made again.
    ``detect_time_s`` and ``repaired_time_s`` are ``time.time()`` stamps.

    ``replaced`` are pairs of a rank that is gone, now or since an earlier recovery, and the
    spare that is a member in its place from now on. ``met`` is what all members came for,
    ``together`` whether all had completed the same operations by then.
    """

    operation: int
    finished: bool
    lost: tuple[Member, ...]
    before: World
    after: World
    detect_time_s: float
    repaired_time_s: float
    replaced: tuple[tuple[int, int], ...] = ()
    met: Purpose = Purpose.GO_ON
    together: bool = False

    @property
    def repair_s(self) -> float:
        return self.repaired_time_s - self.detect_time_s


@dataclass(frozen=True, kw_only=True)
class Pending:
    """Whose work the next operation is made of.

    All survivors hold equal values here, whether or not they noticed a failure
    in the same operation: ``expected`` are the ranks (original) that were alive
    when the operation could first have been started, ``lost`` those of them that
    died since. Work is shared among ``expected``; what fell to ``lost`` is
    divided among the others. A spare stands in ``expected`` where the rank did whose
    place it took, so that nobody else's work is another than before.

    ``out_of_step``: at the last repair, which nobody need have died for, some members were one
    operation behind and were given its result. Until the next operation completes, members
    disagree about which messages between single peers were already sent, so none may be started:
    see :attr:`p2p_unsafe`.

    ``repairs``: how many there were when the operation could first have been started. Messages
    that were under way at a repair are lost.
    """

    operation: int
    expected: tuple[int, ...]
    lost: tuple[int, ...]
    out_of_step: bool = False
    repairs: int = 0

    @property
    def p2p_unsafe(self) -> bool:
        """Whether a peer may not make its part of a message that is made before the operation."""
        return self.out_of_step or bool(self.lost)


@dataclass(frozen=True, kw_only=True)
class Gathered:
    """Rows of an allgather, ``rows[i]`` from original rank ``ranks[i]``."""

    ranks: tuple[int, ...]
    rows: np.ndarray

    def __getitem__(self, rank: int) -> np.ndarray:
        return np.asarray(self.rows[self.ranks.index(rank)])
