"""Who is taking part: an immutable value, replaced as a whole when ranks die.

Ranks are named by their *original* rank, the one in MPI_COMM_WORLD, which
never changes: logs, data ownership and reports stay readable after a shrink.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

__all__ = ["Member", "World"]


@dataclass(frozen=True, kw_only=True)
class Member:
    """One process: its original rank, its host's name and its process id there."""

    rank: int
    host: str
    pid: int


@dataclass(frozen=True, kw_only=True)
class World:
    """The living members, in communicator order.

    ``generation`` counts the repairs: 0 at the start, one more after each.
    """

    members: tuple[Member, ...]
    rank: int
    generation: int = 0

    @cached_property
    def ranks(self) -> tuple[int, ...]:
        """Original ranks of the members, in communicator order."""
        return tuple(member.rank for member in self.members)

    @property
    def size(self) -> int:
        return len(self.members)

    @cached_property
    def place(self) -> int:
        """My index among the members, which is my rank in the repaired communicator."""
        return self.ranks.index(self.rank)

    @property
    def leader(self) -> int:
        """Original rank of the first member: it prints and writes until it dies."""
        return self.members[0].rank

    @property
    def is_leader(self) -> bool:
        return self.rank == self.leader

    @property
    def me(self) -> Member:
        return self.members[self.place]

    @property
    def neighbours(self) -> tuple[Member, ...]:
        """The other members on my host."""
        return tuple(m for m in self.members if m.host == self.me.host and m.rank != self.rank)

    def keeping(self, ranks: Iterable[int]) -> World:
        """The world after a repair that only *ranks* (original) survived."""
        kept = frozenset(ranks)
        return World(
            members=tuple(m for m in self.members if m.rank in kept),
            rank=self.rank,
            generation=self.generation + 1,
        )
