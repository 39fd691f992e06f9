"""Single tensors of a traced function as a function of its own, without what they do not need."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import tensorflow as tf

from matex.errors import NotShareable
from matex.steps.specialization import concrete

__all__ = ["function_of"]

# What costs as much as the step itself, were every rank to compute it for all rows.
_HEAVY = ("MatMul", "Einsum", "Conv", "While", "RNN", "If", "Case", "PartitionedCall")


def function_of(
    traced: Any, wanted: list[Any], signature: Any, *, purpose: str
) -> Callable[[Any], np.ndarray]:
    """*wanted*, scalars of the graph of *traced*, as a function of its first argument. Local.

    Args:
        traced: concrete function.
        wanted: at least one tensor, float64.
        signature: signature of the first argument.
        purpose: name of what is wanted, for the reason.

    Returns:
        A function of a batch, which gives float64, shape (wanted,).

    Raises:
        NotShareable: they need more than the argument and cheap operations.
    """
    graph = traced.graph
    if any(tensor.graph is not graph for tensor in wanted):
        raise NotShareable(f"{purpose} are computed in a loop or a function of their own")
    needed = _needed(tensor.op for tensor in wanted)
    arguments = graph.inputs[: len(tf.nest.flatten(signature, expand_composites=True))]
    captured = {id(inner): outer for outer, inner in graph.captures}
    mapped = {}
    for place in graph.inputs:
        if place.op.name not in needed:
            continue
        index = next((i for i, one in enumerate(arguments) if one is place), None)
        outer = captured.get(id(place))
        if index is None and (outer is None or place.dtype in (tf.resource, tf.variant)):
            raise NotShareable(f"{purpose} depend on what a step changes")
        mapped[place.name] = index if outer is None else outer
    for operation in needed.values():
        _check_cheap(operation, purpose)
    definition = _definition(graph, needed)
    names = [tensor.name for tensor in wanted]

    def compute(batch: Any) -> Any:
        flat = tf.nest.flatten(batch, expand_composites=True)
        inputs = {
            name: flat[source] if isinstance(source, int) else tf.identity(source)
            for name, source in mapped.items()
        }
        return tf.stack(
            tf.graph_util.import_graph_def(
                definition, input_map=inputs, return_elements=names, name="needed"
            )
        )

    function = concrete(compute, (signature,))
    return lambda batch: np.asarray(function(batch))


def _needed(operations: Iterable[Any]) -> dict[str, Any]:
    """The operations that *operations* depend on, and they themselves, by name."""
    needed: dict[str, Any] = {}
    pending = list(operations)
    while pending:
        operation = pending.pop()
        if operation.name not in needed:
            needed[operation.name] = operation
            pending += [tensor.op for tensor in operation.inputs]
            pending += operation.control_inputs
    return needed


def _check_cheap(operation: Any, purpose: str) -> None:
    if operation.op_def.is_stateful:
        raise NotShareable(f"{purpose} depend on {operation.type}, which has a state")
    if any(heavy in operation.type for heavy in _HEAVY):
        raise NotShareable(f"{purpose} depend on {operation.type}, too much for each rank")


def _definition(graph: Any, needed: dict[str, Any]) -> Any:
    whole = graph.as_graph_def()
    definition = type(whole)(versions=whole.versions)
    definition.node.extend(node for node in whole.node if node.name in needed)
    return definition
