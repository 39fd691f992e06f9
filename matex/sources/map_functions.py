"""Whether functions of a tf.data pipeline always return the same values. Local.

A function with random or other state gives results that depend on its earlier runs. In a parallel
operation of tf.data the order of the elements for which it runs is random as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from matex.errors import NotShareable

__all__ = ["chance_decides", "check_function"]

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
    """Check the graph of *function* and of the functions that it calls.

    Raises:
        NotShareable: an operation is not the same each time, and which.
    """
    for operation in _operations(function.graph):
        if _has_state(operation):
            raise NotShareable(f"a map has {operation.type}, which is not the same each time")


def chance_decides(dataset: Any) -> bool:
    """Whether two passes over *dataset* with equal seeds can differ randomly.

    They can if it has an operation that the script declared nondeterministic, or a parallel
    operation and a function with state, not necessarily of that operation. A parallel interleave
    does not tell whether it is deterministic.
    """
    parallel = stateful = False
    pending = [dataset]
    while pending:
        operation = pending.pop()
        pending.extend(operation._inputs())
        kind = type(operation).__name__
        if getattr(operation, "_deterministic", "") == "false" or "ParallelInterleave" in kind:
            return True
        parallel = parallel or "Parallel" in kind
        for wrapper in operation._functions():
            for inner in _operations(wrapper.function.graph):
                parallel = parallel or "Parallel" in inner.type
                stateful = stateful or (_has_state(inner) and "Dataset" not in inner.type)
    return parallel and stateful


def _has_state(operation: Any) -> bool:
    """Whether *operation* itself has state; functions that it calls are checked separately."""
    return operation.op_def.is_stateful and operation.type not in _READING


def _operations(graph: Any) -> Iterator[Any]:
    """Operations of *graph*; a call is replaced by the operations of its function.

    An operation that makes a dataset with a function is yielded as well.
    """
    for operation in graph.get_operations():
        inner = [graph._get_function(name) for name in _called(operation)]
        is_call = bool(inner) and None not in inner
        if not is_call or "Dataset" in operation.type:
            yield operation
        if is_call:
            for function in inner:
                yield from _operations(function.graph)


def _called(operation: Any) -> list[str]:
    """The functions that *operation* calls, by name."""
    values = operation.node_def.attr.values()
    single = [value.func.name for value in values if value.HasField("func")]
    return single + [function.name for value in values for function in value.list.func]
