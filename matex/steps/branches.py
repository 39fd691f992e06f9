"""Branches that a traced step takes by the rows of its batch: a part of them may take others.

The trial of a few rows cannot tell, because both parts of these may take the branch of the whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matex.steps.graph_inspection import ONE_FOR_ALL

__all__ = ["takes_branch_by_rows"]

_BRANCHES = ("If", "StatelessIf", "Case", "StatelessCase")
_LOOPS = ("While", "StatelessWhile")
_CALLS = ("PartitionedCall", "StatefulPartitionedCall")
_SHAPES = ("Shape", "ShapeN", "Size", "Rank")
_PYTHON = ("PyFunc", "EagerPyFunc")  # of matex: the script's own is not shared

_ASSERTION = "AssertGuard"  # TensorFlow's branch that raises an error or does nothing


def takes_branch_by_rows(function: Any) -> bool:
    """Whether values of the batch decide on a branch in *function*. Local.

    How often a loop runs may depend on them: one that goes over the steps of sequences may go over
    steps that are padding.

    Args:
        function: concrete function of a batch and a control vector.
    """
    graph = function.graph
    others = len(function.captured_inputs) + 1
    rows = len(graph.inputs) - others
    return _Graph(graph, [True] * rows + [False] * others).branches


class _Graph:
    """The values of a *graph* that are made of rows, given which of its inputs are.

    ``branches`` is whether one of them decides on a branch, in the graph or in one that it calls;
    ``outputs`` are whether each of its outputs is made of rows.
    """

    def __init__(self, graph: Any, inputs: Sequence[bool]) -> None:
        self._graph = graph
        self.branches = False
        pairs = zip(graph.inputs, inputs, strict=True)
        self._made = {id(tensor) for tensor, is_made in pairs if is_made}
        for operation in graph.get_operations():
            self._look_at(operation)
        self.outputs = [id(tensor) in self._made for tensor in graph.outputs]

    def _look_at(self, operation: Any) -> None:
        given = [id(tensor) in self._made for tensor in operation.inputs]
        if not any(given) or operation.type in _SHAPES or _is_same_on_all_ranks(operation):
            return
        made = [True] * len(operation.outputs)
        if operation.type in _BRANCHES:
            self.branches |= given[0] and _ASSERTION not in operation.name
            for inner in self._called(operation):
                self.branches |= _Graph(inner, given[1:]).branches
        elif operation.type in _LOOPS:
            made = self._around(operation, given)
        elif operation.type in _CALLS:
            (inner,) = self._called(operation)
            called = _Graph(inner, given)
            self.branches |= called.branches
            made = called.outputs
        self._made |= {id(t) for t, is_made in zip(operation.outputs, made, strict=True) if is_made}

    def _around(self, loop: Any, given: list[bool]) -> list[bool]:
        """The values of *loop* that come to be made of rows, however often it runs."""
        before: list[bool] = []
        while given != before:
            before = given
            body = _Graph(self._graph._get_function(loop.get_attr("body").name).graph, given)
            self.branches |= body.branches
            given = [a or b for a, b in zip(given, body.outputs, strict=True)]
        return given

    def _called(self, operation: Any) -> list[Any]:
        """The graphs that *operation* calls."""
        values = operation.node_def.attr.values()
        names = [value.func.name for value in values if value.HasField("func")]
        names += [function.name for value in values for function in value.list.func]
        found = [self._graph._get_function(name) for name in names]
        return [function.graph for function in found if function is not None]


def _is_same_on_all_ranks(operation: Any) -> bool:
    """Whether *operation* is an exchange, or gives what the script has given for all rows."""
    is_exchange = operation.type in _PYTHON or operation.type.startswith("Matex")
    return is_exchange or ONE_FOR_ALL in operation.name
