"""Views of the membership, and the purposes for which ranks come to a repair. Pure.

Spares wait beside the working ranks and take part in nothing but repairs. They receive the state of
the running operation from the working ranks as a :class:`View`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import IntEnum

import numpy as np

from ft.errors import UsageError

__all__ = ["ELSEWHERE", "NEWCOMERS", "SEAL", "Purpose", "View", "next_view"]

#: Last number of every message, so that zeros in its place are recognised.
SEAL = 0x6D61746578


class Purpose(IntEnum):
    """The reason for which a rank comes to a repair."""

    RECOVER = 0
    """An operation failed, or there is no other reason."""
    FILL = 1
    """As RECOVER; and before the next attempt spares may take the places of dead ranks."""
    SET_ASIDE = 2
    """Some members are to become spares."""
    CALL_BACK = 3
    """All spares are to become members again."""
    CLOSE = 4
    """All spares are to become members again, to leave together."""
    LEAVE = 5
    """This rank has reached its end."""
    WAIT = 6
    """This rank is a spare."""
    REGROUP = 7
    """This rank left a common computation before its end, as all others may have done."""
    ADMIT = 8
    """A newcomer is to wait in reserve."""


#: After these purposes some members have taken no part in earlier operations.
NEWCOMERS = (Purpose.FILL, Purpose.CALL_BACK, Purpose.CLOSE)

#: Ranks with these purposes do not make the operation in which other ranks may be.
ELSEWHERE = (Purpose.CLOSE, Purpose.LEAVE, Purpose.REGROUP)


@dataclass(frozen=True, kw_only=True)
class View:
    """The members, spares and running operation after a repair, equal on all ranks.

    Ranks are original ones. ``agreed_purpose`` is the purpose of all working ranks, RECOVER if
    their purposes differ. ``at_same_operation`` is whether all had completed the same operations.
    ``done`` is the number of operations that the working ranks have completed; ``expected`` and
    ``lost`` are as in :class:`ft.Pending`; ``vacant`` are ranks that were lost and not replaced,
    and ranks in reserve for which a place was added; ``left`` are the ranks whose places ``joined``
    took in this repair.
    """

    agreed_purpose: Purpose
    at_same_operation: bool = False
    done: int
    members: tuple[int, ...]
    waiting: tuple[int, ...] = ()
    expected: tuple[int, ...]
    lost: tuple[int, ...] = ()
    vacant: tuple[int, ...] = ()
    left: tuple[int, ...] = ()
    joined: tuple[int, ...] = ()

    def pack(self, size: int) -> np.ndarray:
        """Array of int64, of the same shape for all views of at most *size* ranks."""
        packed = np.full((len(_LISTS) + 1, size + 4), -1, np.int64)
        packed[0, :4] = self.agreed_purpose, self.done, self.at_same_operation, SEAL
        for row, name in zip(packed[1:], _LISTS, strict=True):
            ranks = getattr(self, name)
            row[0] = len(ranks)
            row[1 : 1 + len(ranks)] = ranks
        return packed

    @staticmethod
    def unpack(packed: np.ndarray) -> View:
        """View that :meth:`pack` encoded.

        Raises:
            ValueError: the seal is missing, because a rank died while the view was sent.
        """
        if packed[0, 3] != SEAL:
            raise ValueError("a packed view was wanted. Received: something else")
        lists = {
            name: tuple(row[1 : 1 + row[0]].tolist())
            for name, row in zip(_LISTS, packed[1:], strict=True)
        }
        agreed_purpose, done, at_same_operation = packed[0, :3].tolist()
        return View(
            agreed_purpose=Purpose(agreed_purpose),
            done=done,
            at_same_operation=bool(at_same_operation),
            **lists,
        )


_LISTS = tuple(
    field.name
    for field in fields(View)
    if field.name not in ("agreed_purpose", "done", "at_same_operation")
)


def next_view(
    before: View,
    came: Mapping[int, Purpose],
    *,
    at_same_operation: bool,
    working: int = 0,
) -> View:
    """Next view, from the view before a repair and each rank's purpose.

    Args:
        before: view that the working ranks knew, after the last operation's result has been sent to
            members that lacked it.
        came: purposes of the present ranks, WAIT for spares.
        at_same_operation: whether all working ranks had completed the same operations.
        working: number of members that go on working, with SET_ASIDE.

    Raises:
        UsageError: no working rank is present.
    """
    members = tuple(rank for rank in before.members if rank in came)
    if not members:
        raise UsageError("a repair wants a rank that works. Received: only such in reserve")
    gone = tuple(rank for rank in before.members if rank not in came)
    purposes = {came[rank] for rank in members}
    agreed_purpose = purposes.pop() if len(purposes) == 1 and at_same_operation else Purpose.RECOVER
    now = replace(
        before,
        agreed_purpose=agreed_purpose,
        at_same_operation=at_same_operation,
        members=members,
        waiting=tuple(rank for rank in before.waiting if rank in came),
        lost=tuple(r for r in before.expected if r in before.lost or r in gone),
        vacant=(*before.vacant, *gone),
        left=(),
        joined=(),
    )
    if agreed_purpose == Purpose.FILL:
        return _filled(now)
    if agreed_purpose in (Purpose.CALL_BACK, Purpose.CLOSE):
        return _anew(now, (*members, *now.waiting), (), vacant=now.vacant[len(now.waiting) :])
    if agreed_purpose == Purpose.SET_ASIDE:
        missing = max(0, working - len(members))
        vacant = now.vacant[len(now.vacant) - missing :]
        return _anew(now, members[:working], members[working:], vacant=vacant)
    return now


def _anew(
    now: View, members: Sequence[int], waiting: Sequence[int], *, vacant: tuple[int, ...]
) -> View:
    """View *now* with other members and spares from the next operation on."""
    members, waiting = tuple(members), tuple(waiting)
    return replace(now, members=members, waiting=waiting, expected=members, lost=(), vacant=vacant)


def _filled(now: View) -> View:
    """View with each spare in the place of a dead rank, so that no other rank's work changes.

    If that place is no longer part of the running operation, the spare comes last.
    """
    taken = dict(zip(now.vacant, now.waiting, strict=False))
    expected = tuple(taken.get(rank, rank) for rank in now.expected)
    expected += tuple(spare for spare in taken.values() if spare not in expected)
    lost = tuple(rank for rank in now.lost if rank not in taken)
    members = (*now.members, *taken.values())
    order = (*(rank for rank in expected if rank in members), *members)
    return replace(
        now,
        members=tuple(dict.fromkeys(order)),
        waiting=now.waiting[len(taken) :],
        expected=expected,
        lost=lost,
        vacant=now.vacant[len(taken) :],
        left=tuple(taken),
        joined=tuple(taken.values()),
    )
