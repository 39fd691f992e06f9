"""Which ranks make a node, and how much each of those that meet counts."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["OUTER", "Shares", "nodes_of", "shares_of_all", "shares_of_node", "shares_of_nodes"]

#: Meetings of a rank with the centre of its node between two of that centre with the one above,
#: where the user says nothing else.
OUTER = 4

Shares = dict[int, float]
"""The share of each that meets a centre (original rank), in their order; they add up to 1."""


def nodes_of(members: Sequence[tuple[int, str]], ranks_per_node: int = 0) -> list[list[int]]:
    """The ranks of each node, of the living *members* (original rank, host).

    Args:
        ranks_per_node: how many there were on each at the start; 0 goes by hosts.
    """
    groups: dict[int | str, list[int]] = {}
    for rank, host in members:
        groups.setdefault(rank // ranks_per_node if ranks_per_node else host, []).append(rank)
    return list(groups.values())


def shares_of_all(ranks: Sequence[int]) -> Shares:
    """All of *ranks* meet one centre."""
    return dict.fromkeys(ranks, 1 / len(ranks))


def shares_of_node(nodes: Sequence[Sequence[int]], rank: int) -> Shares:
    """The shares of the ranks on the node of *rank*, which meet the centre of that node."""
    return shares_of_all(next(node for node in nodes if rank in node))


def shares_of_nodes(nodes: Sequence[Sequence[int]]) -> Shares:
    """The first of each node brings its centre to the one above; nodes count by their ranks.

    So the mean over ranks stays where it is when nodes have lost some.
    """
    ranks = sum(len(node) for node in nodes)
    return {node[0]: len(node) / ranks for node in nodes}
