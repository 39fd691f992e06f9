"""Rules by which at most one part of a partitioned world goes on.

A rank that is absent from a repair is dead, or alive behind a network that is cut. The present
ranks may go on only if no other part can. They may

1. if all ranks are and always were on one host, which no network can partition. (Ranks of one host
   that have lost another host may be partitioned: Open MPI counts as dead any rank that a rank
   behind a cut network has given up, once it hears of it when the network returns.)
2. if they are more than all other members and spares of the last world together, dead or alive. (A
   part that was given leave, and died, may have gone on meanwhile.)
3. if an arbiter outside of the ranks says so, see :class:`NetworkSplit`. If there is no arbiter, or
   it does not answer, they may if they are more than the unknown ranks: ranks that are proved dead
   do not count then.

Two parts of one world cannot both be the larger, and of two halves the arbiter picks one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ft import heartbeat
from ft.processes import is_alive
from ft.world import Member, World

__all__ = [
    "Arbiter",
    "NetworkSplit",
    "Ruling",
    "has_ended",
    "may_be_given_up",
    "named",
    "no_arbiter",
]

_LOOK_S = 0.02


@dataclass(frozen=True, kw_only=True)
class NetworkSplit:
    """The ranks of the last common world, as known by the ranks that are present at a repair.

    Attributes:
        present: ranks that are present.
        spread: whether the run has ever used several hosts.
        dead: absent ranks whose processes have ended, as a rank on the same host saw.
        unknown: absent ranks that may be dead or alive.
        silent: further ones, on hosts that have fallen silent, whom nobody needs to ask about.

    Example:
        >>> one, two, three = (ft.Member(rank=r, host=h, pid=1) for r, h in enumerate("aab"))
        >>> ft.NetworkSplit(present=(one, two), spread=True, unknown=(three,)).is_decided
        True
        >>> ft.NetworkSplit(present=(three,), spread=True, unknown=(one, two)).is_decided
        False
    """

    present: tuple[Member, ...]
    spread: bool
    dead: tuple[Member, ...] = ()
    unknown: tuple[Member, ...] = ()
    silent: tuple[Member, ...] = ()

    @property
    def is_decided(self) -> bool:
        """Whether the present ranks may go on without an arbiter. Pure."""
        absent = len(self.unknown) + len(self.silent) + len(self.dead)
        return not self.spread or len(self.present) > absent

    @property
    def is_larger(self) -> bool:
        """Whether the present ranks are more than all ranks that may be alive elsewhere. Pure."""
        return len(self.present) > len(self.unknown) + len(self.silent)

    @property
    def text(self) -> str:
        """Description of the ranks that the present ranks have lost. Pure."""
        here, dead, unknown = (
            named([member.rank for member in some])
            for some in (self.present, self.dead, self.unknown)
        )
        if self.unknown:
            return f"{here} cannot know whether {unknown} ended"
        return f"{here} cannot know whether {dead} went on before the end"


class Ruling(NamedTuple):
    """Answer of an arbiter.

    Attributes:
        refusal: reason for which the present ranks may not go on, one sentence; "" if they may.
        ended: unknown ranks whose processes have ended, as the arbiter has found out.

    Example:
        >>> bool(ft.Ruling().refusal)  # they may
        False
    """

    refusal: str = ""
    ended: tuple[int, ...] = ()


#: Decides, on one rank, whether the present ranks, at most half of the last world, may go on. It
#: may take some seconds.
Arbiter = Callable[[NetworkSplit], Ruling]


def named(ranks: Iterable[int]) -> str:
    """Text that names the ranks: ``rank 3``, ``ranks 0, 2``. Pure."""
    numbers = [str(rank) for rank in sorted(ranks)]
    return f"rank{'s' * (len(numbers) > 1)} {', '.join(numbers)}"


def no_arbiter(split: NetworkSplit) -> Ruling:
    """Ruling without an arbiter, so that no smaller part ever got leave to go on. Pure."""
    return Ruling("" if split.is_larger else "there is nobody to ask which part may go on")


def has_ended(members: Sequence[Member], *, within_s: float) -> list[bool]:
    """Whether each process of *members*, on this host, has ended or ends *within_s* seconds."""
    limit = time.monotonic() + within_s
    while True:
        ended = [not is_alive(member.pid) for member in members]
        if all(ended) or time.monotonic() > limit:
            return ended
        time.sleep(_LOOK_S)


def may_be_given_up(world: World) -> bool:
    """Determine whether ranks may go on without one that lives, and was only silent; local.

    Args:
        world: ranks of the run.

    Returns:
        False if all ranks are and always were on one host and Open MPI's failure detector is off:
        then only a process that has ended counts as dead.

    Example:
        >>> two = ft.Member(rank=0, host="a", pid=1), ft.Member(rank=1, host="b", pid=1)
        >>> ft.may_be_given_up(ft.World(members=two, rank=0))
        True
        >>> ft.may_be_given_up(ft.World(members=two[:1], rank=0))
        False
    """
    return world.spread or heartbeat.is_on(os.environ)
