"""Ranks of nodes, and the share of each rank that pushes to a centre."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["OUTER", "Shares", "nodes_of", "shares_of_all", "shares_of_node", "shares_of_nodes"]

#: Default number of pushes of a rank to its node's centre between two of that centre to the upper
#: one.
OUTER = 4

Shares = dict[int, float]
"""Share of each original rank that pushes to a centre, in their order; shares sum to 1."""


def nodes_of(members: Sequence[tuple[int, str]], ranks_per_node: int = 0) -> list[list[int]]:
    """Ranks of each node, from the living *members* (original rank, host).

    Args:
        ranks_per_node: number of original ranks in a node; default 0, the ranks of a host.
    """
    groups: dict[int | str, list[int]] = {}
    for rank, host in members:
        groups.setdefault(rank // ranks_per_node if ranks_per_node else host, []).append(rank)
    return list(groups.values())


def shares_of_all(ranks: Sequence[int]) -> Shares:
    """Equal shares of *ranks*, which push to one centre."""
    return dict.fromkeys(ranks, 1 / len(ranks))


def shares_of_node(nodes: Sequence[Sequence[int]], rank: int) -> Shares:
    """Shares of the ranks on the node of *rank*, which push to the centre of that node."""
    return shares_of_all(next(node for node in nodes if rank in node))


def shares_of_nodes(nodes: Sequence[Sequence[int]]) -> Shares:
    """Shares of the first rank of each node, which pushes its centre to the upper centre.

    Nodes are weighted by their ranks, so the mean over ranks is kept when nodes have lost ranks.
    """
    ranks = sum(len(node) for node in nodes)
    return {node[0]: len(node) / ranks for node in nodes}
