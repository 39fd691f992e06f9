"""The results of a traced step, and the operations of its graph that they are made by."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from matex.steps.auxiliary_part import RETURNED
from matex.steps.graphs.graph_inspection import depends_on
from matex.steps.separability.branches import is_exchange

__all__ = ["ASSIGNMENTS", "is_variable", "kept_of", "leading_to", "results_of", "uses"]

#: Types of operations that change a variable, their first input, by their second one.
ASSIGNMENTS = ("AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp")


def results_of(function: Any, gradients: list[Any] | None = None) -> list[Any]:
    """The gradients of the concrete *function* of a step, and the values it returns or keeps.

    Args:
        gradients: tensors of its graph; by default those that are exchanged in the graph.
    """
    graph = function.graph
    returned = [one.outputs[0] for one in graph.get_operations() if RETURNED in one.name]
    found = kept_of(graph) if gradients is None else [*gradients, *_assigned_in(graph)]
    return [*found, *returned]


def _exchanged_in(graph: Any) -> list[Any]:
    """The tensors that *graph* exchanges between the ranks."""
    found = [list(one.inputs) for one in graph.get_operations() if is_exchange(one)]
    return [tensor for tensors in found for tensor in tensors]


def kept_of(graph: Any) -> list[Any]:
    """The tensors that *graph* exchanges, assigns to variables or adds to them."""
    return [*_assigned_in(graph), *_exchanged_in(graph)]


def _assigned_in(graph: Any) -> list[Any]:
    """The tensors by which *graph* changes variables."""
    return [one.inputs[1] for one in graph.get_operations() if one.type in ASSIGNMENTS]


def is_variable(tensor: Any) -> bool:
    """Whether *tensor* is a variable, not its value."""
    return bool(tensor.dtype.name == "resource")


def _made_of(operation: Any) -> list[Any]:
    """Inputs of *operation*, but for a number that is the length of a result of known length."""
    is_length = operation.type == "DenseBincount" and operation.outputs[0].shape[-1] is not None
    return [*operation.inputs[:1], *operation.inputs[2:]] if is_length else list(operation.inputs)


def leading_to(tensors: list[Any], graph: Any) -> set[str]:
    """The names of the operations of *graph* that *tensors* are made by.

    What was assigned to a variable makes what is read from it later.
    """
    order = {operation.name: place for place, operation in enumerate(graph.get_operations())}
    names: set[str] = set()
    left = [tensor.op for tensor in tensors]
    while left:
        operation = left.pop()
        if operation.name in names:
            continue
        names.add(operation.name)
        left += [tensor.op for tensor in _made_of(operation)]
        variables = [tensor for tensor in operation.inputs if is_variable(tensor)]
        users = [user for tensor in variables for user in tensor.consumers()]
        left += [user for user in users if order[user.name] < order[operation.name]]
    return names


def uses(function: Any, variables: Iterable[Any]) -> bool:
    """Whether results or effects of *function* depend on one of *variables*. Local.

    Args:
        function: concrete function.
        variables: TensorFlow variables, which it reads and does not change.
    """
    acting = [
        operation
        for operation in function.graph.get_operations()
        if operation.op_def.is_stateful and operation.type != "ReadVariableOp"
    ]
    given = [tensor for operation in acting for tensor in operation.inputs]
    known = list(variables)
    return any(depends_on(tensor, known) for tensor in (*function.outputs, *given))
