"""Nodes of living ranks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import ft
from matex.strategies.rules.nodes import nodes_of

__all__ = ["Nodes", "nodes_by"]

Nodes = Callable[[Sequence[int]], list[list[int]]]
"""Function from original ranks to their nodes, equal on all ranks. Local."""


def nodes_by(communicator: ft.Communicator, ranks_per_node: int = 0) -> Nodes:
    """Nodes by host, or *ranks_per_node* consecutive original ranks in each."""
    return partial(_nodes, communicator.hosts, ranks_per_node)


def _nodes(hosts: Mapping[int, str], ranks_per_node: int, ranks: Sequence[int]) -> list[list[int]]:
    return nodes_of([(rank, hosts.get(rank, "")) for rank in ranks], ranks_per_node)
