"""The ranks of a launch by host, and which pairs of hosts are measured. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property

__all__ = ["MOST_IN_FULL", "Placement", "pairs_of"]

#: Hosts up to which each is measured with each other; of more, each is with the next.
MOST_IN_FULL = 8


@dataclass(frozen=True)
class Placement:
    """The hosts of all ranks.

    Args:
        host_of: name of the host of each rank.
    """

    host_of: tuple[str, ...]

    @property
    def size(self) -> int:
        """Number of ranks."""
        return len(self.host_of)

    @cached_property
    def hosts(self) -> tuple[str, ...]:
        """Names of the hosts, in the order of their first ranks."""
        return tuple(dict.fromkeys(self.host_of))

    @cached_property
    def leaders(self) -> tuple[int, ...]:
        """First rank of each host."""
        return tuple(self.host_of.index(host) for host in self.hosts)

    @cached_property
    def ring_exits(self) -> int:
        """Largest number of ranks of a host whose right neighbour is on another host.

        It is 1 where the ranks of a host are numbered in a row, and all of them where ranks are
        dealt out to the hosts one by one.
        """
        ring = zip(self.host_of, (*self.host_of[1:], *self.host_of[:1]), strict=True)
        return max(Counter(here for here, there in ring if here != there).values(), default=0)

    def text(self) -> str:
        """Text about the numbers of ranks and hosts."""
        counts = Counter(self.host_of)
        hosts = ", ".join(f"{host}:{counts[host]}" for host in self.hosts[:MOST_IN_FULL])
        more = ", ..." if len(self.hosts) > MOST_IN_FULL else ""
        ranks = "1 rank" if self.size == 1 else f"{self.size} ranks"
        on = "1 host" if len(self.hosts) == 1 else f"{len(self.hosts)} hosts"
        return f"{ranks} on {on} ({hosts}{more})"


def pairs_of(hosts: int) -> list[tuple[int, int]]:
    """Pairs of *hosts* hosts, by number: all pairs or, for many hosts, those of a ring.

    A ring of H hosts has H pairs, and each host is in two of them.
    """
    if hosts <= MOST_IN_FULL:
        return [(a, b) for a in range(hosts) for b in range(a + 1, hosts)]
    return [(a, (a + 1) % hosts) for a in range(hosts)]
