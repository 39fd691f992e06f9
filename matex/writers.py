"""Who saves: one rank of the run, or one of each host, another each time. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ft import Member

__all__ = ["writes_for_host", "writes_for_run"]


def writes_for_run(number: int, members: Sequence[Member], rank: int) -> bool:
    """Whether *rank* saves checkpoint *number*: one host after the other, and on it each rank."""
    hosts = list(dict.fromkeys(member.host for member in members))
    host = hosts[number % len(hosts)]
    return _chosen(number // len(hosts), members, host) == rank


def writes_for_host(number: int, members: Sequence[Member], rank: int) -> bool:
    """Whether *rank* saves checkpoint *number* for its host: each rank of it in turn."""
    host = next(member.host for member in members if member.rank == rank)
    return _chosen(number, members, host) == rank


def _chosen(number: int, members: Sequence[Member], host: str) -> int:
    here = [member.rank for member in members if member.host == host]
    return here[number % len(here)]
