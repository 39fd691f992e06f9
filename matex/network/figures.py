"""Values measured between hosts, and facts about the hosts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

__all__ = ["HostCard", "Installation", "Interface", "PairFigures", "slowest"]


@dataclass(frozen=True, kw_only=True)
class PairFigures:
    """Figures of a pair of hosts, between one rank of each.

    Args:
        first, second: names of the hosts.
        latency_s: half of the median round trip of 8 bytes, seconds.
        there, back: bandwidth from first to second, and from second to first, while nothing
            goes the other way; bytes a second.
        both: bandwidth of each direction while both are in use, bytes a second.
    """

    first: str
    second: str
    latency_s: float
    there: float
    back: float
    both: float

    @property
    def one_way(self) -> float:
        """Bandwidth of the slower direction alone, bytes a second."""
        return min(self.there, self.back)

    @property
    def name(self) -> str:
        """The names of both hosts."""
        return f"{self.first} - {self.second}"


@dataclass(frozen=True, kw_only=True)
class Interface:
    """A network interface of a host that is up and has an IPv4 address.

    Args:
        name: name in the operating system, such as eth0.
        mbit_s: speed stated by its driver, megabits per second; 0 if unknown.
    """

    name: str
    mbit_s: int = 0


@dataclass(frozen=True, kw_only=True)
class HostCard:
    """Network interfaces of one host.

    Args:
        host: name of the host.
        interfaces: interfaces that are up, without the loopback.
    """

    host: str
    interfaces: tuple[Interface, ...]


@dataclass(frozen=True, kw_only=True)
class Installation:
    """MPI library, its settings, and the hosts of a measurement.

    Args:
        library: vendor and version of the MPI library, for display.
        ulfm: whether the library survives the death of a rank.
        settings: variables ``OMPI_MCA_btl...`` set by the user.
        cards: interfaces of each host.
    """

    library: str
    ulfm: bool
    settings: Mapping[str, str] = field(default_factory=dict)
    cards: tuple[HostCard, ...] = ()

    @property
    def is_open_mpi(self) -> bool:
        """Whether its settings are variables ``OMPI_MCA_...``."""
        return self.library.startswith("Open MPI")


def slowest(figures: Iterable[PairFigures]) -> PairFigures:
    """Pair with the least bandwidth in both directions at once: all ranks wait for it. Pure."""
    return min(figures, key=lambda pair: pair.both)
