"""The nodes that living ranks make."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import ft
from matex.strategies.rules.nodes import nodes_of

__all__ = ["Nodes", "nodes_by"]

Nodes = Callable[[Sequence[int]], list[list[int]]]
"""The nodes of some original ranks: equal on all that ask for the same ones. Local."""


def nodes_by(communicator: ft.Communicator, ranks_per_node: int = 0) -> Nodes:
    """The nodes by the hosts of the ranks, or *ranks_per_node* original ranks in a row to each."""
    return partial(_nodes, communicator.hosts, ranks_per_node)


def _nodes(hosts: Mapping[int, str], ranks_per_node: int, ranks: Sequence[int]) -> list[list[int]]:
    return nodes_of([(rank, hosts.get(rank, "")) for rank in ranks], ranks_per_node)
