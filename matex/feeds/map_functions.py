"""Whether the function of a tf.data map gives the same for an element wherever it runs. Local."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from matex.errors import NotShareable

__all__ = ["check_function"]

# State that is only read, and the same for every element; or none: an assertion changes nothing.
_READING = (
    "ReadVariableOp",
    "ResourceGather",
    "ResourceGatherNd",
    "VarHandleOp",
    "LookupTableFindV2",
    "LookupTableSizeV2",
    "Assert",
)


def check_function(function: Any) -> None:
    """Look through the graph of *function* and of those that it calls.

    Raises:
        NotShareable: an operation is not the same each time, and which.
    """
    for operation in _operations(function.graph):
        if operation.op_def.is_stateful and operation.type not in _READING:
            raise NotShareable(f"a map has {operation.type}, which is not the same each time")


def _operations(graph: Any) -> Iterator[Any]:
    """The operations of *graph*; in place of a call, the operations of what it calls."""
    for operation in graph.get_operations():
        inner = [graph._get_function(name) for name in _called(operation)]
        if not inner or None in inner:
            yield operation
            continue
        for function in inner:
            yield from _operations(function.graph)


def _called(operation: Any) -> list[str]:
    """The functions that *operation* calls, by name."""
    values = operation.node_def.attr.values()
    single = [value.func.name for value in values if value.HasField("func")]
    return single + [function.name for value in values for function in value.list.func]
