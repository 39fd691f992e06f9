"""Rules by which at most one part of a world that fell apart may go on.

A rank that does not come to a repair is dead, or it is alive behind a network that is cut. Only
where nobody else can go on, too, may those who came do so. They may

1. where all ranks are and always were on one host, which no network can part. (Ranks of one host
   that have lost another host may be parted: Open MPI takes for dead whom a rank behind a cut
   network has given up, and hears of it when the network returns.)
2. where they are more than all others, the members of the last world and those in reserve, dead or
   alive. (A part that was given leave, and died, may have gone on meanwhile.)
3. where an arbiter outside of the ranks says so, see :class:`Parting`. Where there is none, or it
   does not answer, they may where they are more than those of whom nothing is known: the ones that
   are proved dead do not count then.

Two parts of one world cannot both be the larger one, and of two halves the arbiter chooses one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ft.processes import is_alive
from ft.world import Member

__all__ = ["Arbiter", "Parting", "Ruling", "has_ended", "named", "no_arbiter"]

_LOOK_S = 0.02


@dataclass(frozen=True, kw_only=True)
class Parting:
    """The ranks of the last world that all of them knew, as those see it who came to a repair.

    Attributes:
        present: ranks that came.
        spread: whether the run ever had several hosts.
        dead: ranks that did not, and whose processes have ended, as a rank on the same host saw.
        unknown: ranks of which nothing is known.

    Example:
        >>> one, two, three = (ft.Member(rank=r, host=h, pid=1) for r, h in enumerate("aab"))
        >>> ft.Parting(present=(one, two), spread=True, unknown=(three,)).is_decided
        True
        >>> ft.Parting(present=(three,), spread=True, unknown=(one, two)).is_decided
        False
    """

    present: tuple[Member, ...]
    spread: bool
    dead: tuple[Member, ...] = ()
    unknown: tuple[Member, ...] = ()

    @property
    def is_decided(self) -> bool:
        """Whether those present may go on by themselves. Pure."""
        return not self.spread or len(self.present) > len(self.unknown) + len(self.dead)

    @property
    def is_larger(self) -> bool:
        """Whether those present are more than all that may be alive elsewhere. Pure."""
        return len(self.present) > len(self.unknown)

    @property
    def text(self) -> str:
        """Whom those present have lost, in words. Pure."""
        here, dead, unknown = (
            named([member.rank for member in some])
            for some in (self.present, self.dead, self.unknown)
        )
        if self.unknown:
            return f"{here} cannot know whether {unknown} ended"
        return f"{here} cannot know whether {dead} went on before the end"


class Ruling(NamedTuple):
    """The answer of an arbiter.

    Attributes:
        refusal: reason for which those present may not go on, in one sentence; "" where they may.
        ended: unknown ranks of which the arbiter has found out that their processes have ended.

    Example:
        >>> bool(ft.Ruling().refusal)  # they may
        False
    """

    refusal: str = ""
    ended: tuple[int, ...] = ()


#: Answers, on one rank, whether those present may go on, half of the last world or less. It may
#: take some seconds.
Arbiter = Callable[[Parting], Ruling]


def named(ranks: Iterable[int]) -> str:
    """Ranks in words: ``rank 3``, ``ranks 0, 2``. Pure."""
    numbers = [str(rank) for rank in sorted(ranks)]
    return f"rank{'s' * (len(numbers) > 1)} {', '.join(numbers)}"


def no_arbiter(parting: Parting) -> Ruling:
    """The answer where nobody can be asked, so that no smaller part was ever given leave."""
    return Ruling("" if parting.is_larger else "there is nobody to ask which part may go on")


def has_ended(members: Sequence[Member], *, within_s: float) -> list[bool]:
    """Whether the processes of *members*, all on this host, have ended, or do so *within_s*."""
    limit = time.monotonic() + within_s
    while True:
        ended = [not is_alive(member.pid) for member in members]
        if all(ended) or time.monotonic() > limit:
            return ended
        time.sleep(_LOOK_S)
