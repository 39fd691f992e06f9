"""Ranks that save, in turns: one of each host, or one or several of the run. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ft import Member

__all__ = ["team_size", "writer_for_run", "writer_group", "writes_for_host"]


def writer_for_run(number: int, members: Sequence[Member]) -> int:
    """Rank that publishes checkpoint *number*: hosts take turns, and so do their ranks."""
    hosts = list(dict.fromkeys(member.machine for member in members))
    host = hosts[number % len(hosts)]
    return _chosen(number // len(hosts), members, host)


def writes_for_host(number: int, members: Sequence[Member], rank: int) -> bool:
    """Whether *rank* saves checkpoint *number* for its host, whose ranks take turns."""
    host = next(member.machine for member in members if member.rank == rank)
    return _chosen(number, members, host) == rank


def team_size(nbytes: int, part_bytes: float, ranks: int) -> int:
    """Number of *ranks* that write a state of *nbytes* together, in parts of at least *part_bytes*;
    where these are 0 one writes all."""
    return max(1, min(ranks, int(nbytes / part_bytes))) if part_bytes else 1


def writer_group(first: int, members: Sequence[Member], size: int) -> list[int]:
    """Ranks that write together: *first*, then one of each host, then another of each."""
    ahead = sorted(members, key=lambda member: member.rank != first)
    rounds: dict[int, int] = {}
    on_host: Counter[tuple[str, str]] = Counter()
    for member in ahead:
        rounds[member.rank] = on_host[member.machine]
        on_host[member.machine] += 1
    return sorted(rounds, key=lambda rank: rounds[rank])[:size]


def _chosen(number: int, members: Sequence[Member], host: tuple[str, str]) -> int:
    here = [member.rank for member in members if member.machine == host]
    return here[number % len(here)]
