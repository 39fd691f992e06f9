"""Binary tree over virtual workers, along which their values are summed. Pure.

The leaves are the workers 0 to count - 1; node ``(level, index)`` covers the workers from
``index << level`` to before ``(index + 1) << level``. The tree depends on their number alone, so a
sum along it is bit-identical, whichever ranks compute its parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

__all__ = ["Node", "folded", "leaves_of", "maximal"]

Node = tuple[int, int]

Value = TypeVar("Value")


def folded(
    values: Mapping[Node, Value], count: int, add: Callable[[Value, Value], Value]
) -> dict[Node, Value]:
    """Sums of the largest subtrees that *values* make up.

    Args:
        values: sums of disjoint subtrees, by node.
        count: number of workers.
        add: function that adds two values, with the value of the lower workers first.
    """
    found = dict(values)
    for level in range((count - 1).bit_length()):
        for left in sorted(index for at, index in found if at == level and index % 2 == 0):
            parent, right = (level + 1, left // 2), (level, left + 1)
            if right[1] << level >= count:  # no worker is there
                found[parent] = found.pop((level, left))
            elif right in found:
                found[parent] = add(found.pop((level, left)), found.pop(right))
    return found


def maximal(workers: Iterable[int], count: int) -> list[Node]:
    """The largest subtrees whose leaves are all among *workers*, in order of their leaves."""
    nodes = folded(dict.fromkeys(((0, worker) for worker in workers), 0), count, lambda a, b: 0)
    return sorted(nodes, key=lambda node: node[1] << node[0])


def leaves_of(node: Node, count: int) -> range:
    """Workers below *node*."""
    level, index = node
    return range(index << level, min((index + 1) << level, count))
