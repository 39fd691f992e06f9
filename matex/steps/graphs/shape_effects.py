"""Operations of a graph that have effects, or results whose lengths depend on values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from matex.steps.separability.branches import called_by

__all__ = ["has_fixed_shapes"]

_BY_VALUES = (
    "Where", "Unique", "DynamicPartition", "NonMaxSuppression", "Ragged", "Sparse", "String",
    "Decode",
)  # fmt: skip
# Stateful, by what they read or call.
_WITHOUT_EFFECT = ("ReadVariableOp", "ResourceGather", "While", "If", "StatefulPartitionedCall")


def has_fixed_shapes(operations: Iterable[Any], graph: Any) -> bool:
    """Whether *operations* have no effects, and shapes that depend on no values. Local.

    Args:
        operations: operations of *graph*; those of functions that they call count, too.
    """
    pending = [(operation, graph) for operation in operations]
    known: set[int] = set()
    while pending:
        operation, outer = pending.pop()
        has_effect = operation.op_def.is_stateful and operation.type not in _WITHOUT_EFFECT
        if has_effect or operation.type.startswith(_BY_VALUES):
            return False
        for inner in called_by(outer, operation):
            if id(inner) not in known:
                known.add(id(inner))
                pending += [(one, inner) for one in inner.get_operations()]
    return True
