"""The ranks that take part in a run: an immutable value, replaced as a whole when ranks die.

Ranks are named by their *original* rank, the one in MPI_COMM_WORLD, which
never changes: logs, data ownership and reports stay readable after a shrink.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ft import sockets
from ft.processes import started_at

__all__ = ["Member", "World"]

_BOOT = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, kw_only=True)
class Member:
    """One process of the run.

    Attributes:
        rank: original rank, which never changes.
        host: name of its host.
        pid: process id on that host.
        space: number of the host's namespace of process ids, of which containers have their own; 0
            if the system has no namespaces.
        boot: identifier that the host's kernel drew when it started; "" if the system has none.
        started: time at which the process was started, in ticks since then; 0 if unknown.
        addresses: IPv4 addresses of the host, without the loopback interface.

    Example:
        >>> ft.Member.here(3).rank
        3
    """

    rank: int
    host: str
    pid: int
    space: int = 0
    boot: str = ""
    started: int = 0
    addresses: tuple[str, ...] = ()

    @property
    def machine(self) -> tuple[str, str]:
        """Identity of its host: two hosts may have one name, or, as containers, one kernel."""
        return self.host, self.boot

    def shares_ids_with(self, other: Member) -> bool:
        """Whether process ids mean the same to both: they are on one host, in one namespace.

        Args:
            other: member of the same run.

        Returns:
            Whether a process id of *other* can be looked up by this one.
        """
        return (self.machine, self.space) == (other.machine, other.space)

    @staticmethod
    def here(rank: int) -> Member:
        """This process as a member. Local.

        Args:
            rank: original rank of this process.

        Returns:
            The member, with the host and the process id of this process.
        """
        try:
            space = Path("/proc/self/ns/pid").stat().st_ino
        except OSError:
            space = 0
        try:
            boot = _BOOT.read_text().strip()
        except OSError:
            boot = ""
        return Member(
            rank=rank,
            host=socket.gethostname(),
            pid=os.getpid(),
            space=space,
            boot=boot,
            started=started_at(),
            addresses=sockets.own_addresses(),
        )


@dataclass(frozen=True, kw_only=True)
class World:
    """The living members, in communicator order, and the spares that wait to replace dead ranks.

    Attributes:
        members: members, in the order of the communicator.
        rank: original rank of this process.
        generation: number of repairs so far.
        spares: living ranks that are not members now.
        spread: whether the run has or ever had ranks on several hosts; determined from the members.
        awaits_admission: whether the other ranks have not admitted this process yet, so that it is
            no leader.

    Example:
        >>> members = tuple(ft.Member(rank=r, host="a", pid=100 + r) for r in range(3))
        >>> world = ft.World(members=members, rank=1)
        >>> world.size, world.leader, world.is_leader
        (3, 0, False)
        >>> after = world.of([1, 2])  # rank 0 is gone
        >>> after.ranks, after.leader, after.generation
        ((1, 2), 1, 1)
    """

    members: tuple[Member, ...]
    rank: int
    generation: int = 0
    spares: tuple[Member, ...] = ()
    spread: bool = False
    awaits_admission: bool = False

    def __post_init__(self) -> None:
        if len({member.machine for member in self.everyone}) > 1:
            object.__setattr__(self, "spread", True)

    @staticmethod
    def of_strangers(size: int, rank: int) -> World:
        """World of ranks that have not exchanged hosts yet, on one of them.

        Args:
            size: number of members.
            rank: original rank of this process.

        Returns:
            World whose members have no hosts and process ids.
        """
        return World(members=tuple(Member(rank=r, host="", pid=0) for r in range(size)), rank=rank)

    @cached_property
    def ranks(self) -> tuple[int, ...]:
        """Original ranks of the members, in communicator order."""
        return tuple(member.rank for member in self.members)

    @property
    def host_count(self) -> int:
        """Number of hosts of the members."""
        return len({member.machine for member in self.members})

    @property
    def size(self) -> int:
        """Number of members."""
        return len(self.members)

    @property
    def is_spare(self) -> bool:
        """Whether this process is a spare, and waits."""
        return self.rank not in self.ranks

    @cached_property
    def place(self) -> int:
        """Index of this process among the members, its rank in the repaired communicator.

        Spares come after the members.
        """
        return [member.rank for member in self.everyone].index(self.rank)

    @cached_property
    def leader(self) -> int:
        """Original rank of the lowest member: it prints and writes until it dies.

        A spare in a dead rank's place leads only when no member from the start is left.
        """
        return min(self.ranks)

    @property
    def is_leader(self) -> bool:
        """Whether this process is the leader."""
        return self.rank == self.leader and not self.awaits_admission

    @property
    def me(self) -> Member:
        """This process."""
        return self.everyone[self.place]

    @property
    def neighbours(self) -> tuple[Member, ...]:
        """Other members and spares on this process's host."""
        here = self.me.machine
        return tuple(m for m in self.everyone if m.machine == here and m.rank != self.rank)

    @property
    def everyone(self) -> tuple[Member, ...]:
        """Members and spares, in this order."""
        return (*self.members, *self.spares)

    def of(
        self, ranks: Sequence[int], spares: Sequence[int] = (), admitted: Sequence[Member] = ()
    ) -> World:
        """World after a repair.

        Args:
            ranks: original ranks of the members, in order.
            spares: original ranks of the spares; none by default.
            admitted: new members or spares, not known before; none by default.

        Returns:
            The world of the next generation.
        """
        known = {member.rank: member for member in (*self.everyone, *admitted)}
        return World(
            members=tuple(known[rank] for rank in ranks),
            rank=self.rank,
            generation=self.generation + 1,
            spares=tuple(known[rank] for rank in spares),
            spread=self.spread,
        )
