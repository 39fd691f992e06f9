"""Who is taking part: an immutable value, replaced as a whole when ranks die.

Ranks are named by their *original* rank, the one in MPI_COMM_WORLD, which
never changes: logs, data ownership and reports stay readable after a shrink.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ft import sockets

__all__ = ["Member", "World"]


@dataclass(frozen=True, kw_only=True)
class Member:
    """One process: its original rank, its host's name and its process id there.

    ``space`` names the space of process ids on that host, of which containers have their own;
    0 where the system has no such thing. ``addresses`` are the host's IPv4 addresses, without
    that of the loopback interface.
    """

    rank: int
    host: str
    pid: int
    space: int = 0
    addresses: tuple[str, ...] = ()

    @staticmethod
    def here(rank: int) -> Member:
        """This process."""
        try:
            space = Path("/proc/self/ns/pid").stat().st_ino
        except OSError:
            space = 0
        return Member(
            rank=rank,
            host=socket.gethostname(),
            pid=os.getpid(),
            space=space,
            addresses=sockets.own_addresses(),
        )


@dataclass(frozen=True, kw_only=True)
class World:
    """The living members, in communicator order, and those who wait to replace them.

    ``generation`` counts the repairs: 0 at the start, one more after each. ``reserve`` are
    living ranks that are no members for now. ``spread`` is whether there are or ever were ranks
    on several hosts.
    """

    members: tuple[Member, ...]
    rank: int
    generation: int = 0
    reserve: tuple[Member, ...] = ()
    spread: bool = False

    def __post_init__(self) -> None:
        if len({member.host for member in self.everyone}) > 1:
            object.__setattr__(self, "spread", True)

    @cached_property
    def ranks(self) -> tuple[int, ...]:
        """Original ranks of the members, in communicator order."""
        return tuple(member.rank for member in self.members)

    @property
    def size(self) -> int:
        return len(self.members)

    @property
    def waits(self) -> bool:
        """Whether I am in reserve."""
        return self.rank not in self.ranks

    @cached_property
    def place(self) -> int:
        """My index among the members, which is my rank in the repaired communicator.

        Those in reserve come after them.
        """
        return [member.rank for member in self.everyone].index(self.rank)

    @cached_property
    def leader(self) -> int:
        """Original rank of the lowest member: it prints and writes until it dies.

        So not of a spare in another's place, as long as there is one that worked from the start.
        """
        return min(self.ranks)

    @property
    def is_leader(self) -> bool:
        return self.rank == self.leader

    @property
    def me(self) -> Member:
        return self.everyone[self.place]

    @property
    def neighbours(self) -> tuple[Member, ...]:
        """The others on my host, in reserve or not."""
        return tuple(m for m in self.everyone if m.host == self.me.host and m.rank != self.rank)

    @property
    def everyone(self) -> tuple[Member, ...]:
        """The members, and those in reserve."""
        return (*self.members, *self.reserve)

    def keeping(self, ranks: Iterable[int]) -> World:
        """The world after a repair that only *ranks* (original) survived."""
        kept = frozenset(ranks)
        return self.of(
            [member.rank for member in self.members if member.rank in kept],
            [member.rank for member in self.reserve if member.rank in kept],
        )

    def of(self, ranks: Sequence[int], reserve: Sequence[int] = ()) -> World:
        """The world after a repair with *ranks* (original) as members, in this order."""
        known = {member.rank: member for member in self.everyone}
        return World(
            members=tuple(known[rank] for rank in ranks),
            rank=self.rank,
            generation=self.generation + 1,
            reserve=tuple(known[rank] for rank in reserve),
            spread=self.spread,
        )
