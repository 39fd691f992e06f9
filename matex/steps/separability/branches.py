"""Detection of branches that a traced step takes by values of its rows.

The check of a few rows cannot find them, because both parts may take the branch of the whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matex.steps.graphs.graph_inspection import ONE_FOR_ALL

__all__ = [
    "BRANCHES", "CALLS", "LOOPS", "body_of", "called_by", "gives_shape", "is_exchange",
    "is_same_on_all_ranks", "takes_branch_by_rows",
]  # fmt: skip

#: Types of operations that take one of several branches, the first input saying which.
BRANCHES = ("If", "StatelessIf", "Case", "StatelessCase")
#: Types of operations that are loops.
LOOPS = ("While", "StatelessWhile")
#: Types of operations that call a function.
CALLS = ("PartitionedCall", "StatefulPartitionedCall")
_SHAPES = ("Shape", "ShapeN", "Size", "Rank")
_PYTHON = ("PyFunc", "EagerPyFunc")  # matex's own; a step with Python of the script is not shared

_ASSERTION = "AssertGuard"  # TensorFlow's branch that raises an error or does nothing


def takes_branch_by_rows(function: Any) -> bool:
    """Whether values of the batch decide a branch in *function*. Local.

    The number of iterations of a loop may depend on them: a loop over the steps of sequences may
    run over padding.

    Args:
        function: concrete function of a batch and a control vector.
    """
    graph = function.graph
    others = len(function.captured_inputs) + 1
    rows = len(graph.inputs) - others
    return _Graph(graph, [True] * rows + [False] * others).branches


class _Graph:
    """Values of a *graph* that depend on rows, given which of its inputs do.

    ``branches`` is whether such a value decides a branch, in the graph or in a graph that it calls;
    ``outputs`` tells for each output whether it depends on rows.
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
        if not any(given) or gives_shape(operation) or is_same_on_all_ranks(operation):
            return
        made = [True] * len(operation.outputs)
        if operation.type in BRANCHES:
            self.branches |= given[0] and _ASSERTION not in operation.name
            for inner in _functions_of(self._graph, operation):
                self.branches |= self._within(inner, given[1:])[0]
        elif operation.type in LOOPS:
            made = self._around(operation, given)
        elif operation.type in CALLS:
            (inner,) = _functions_of(self._graph, operation)
            branches, outputs = self._within(inner, given)
            self.branches |= branches
            made = outputs or made
        self._made |= {id(t) for t, is_made in zip(operation.outputs, made, strict=True) if is_made}

    def _around(self, loop: Any, given: list[bool]) -> list[bool]:
        """Loop variables of *loop* that depend on rows after any number of iterations."""
        before: list[bool] = []
        body = _body_function(self._graph, loop)
        while given != before:
            before = given
            branches, outputs = self._within(body, given)
            self.branches |= branches
            given = [a or b for a, b in zip(given, outputs or [True] * len(given), strict=True)]
        return given

    def _within(self, function: Any, given: Sequence[bool]) -> tuple[bool, list[bool]]:
        """Whether *function* branches by rows, and which of its outputs depend on rows.

        TensorFlow's oldest kind of function, used by CTC, has a definition and no graph: then any
        branch counts, and an empty list means that its outputs are unknown.
        """
        if getattr(function, "graph", None) is None:
            return self._may_branch(function.definition), []
        inner = _Graph(function.graph, given)
        return inner.branches, inner.outputs

    def _may_branch(self, definition: Any) -> bool:
        """Whether *definition*, or a function that it calls, has a branch."""
        for node in definition.node_def:
            if node.op in BRANCHES and _ASSERTION not in node.name:
                return True
            names = [node.op, *(value.func.name for value in node.attr.values())]
            called = [self._graph._get_function(name) for name in names if name]
            if any(self._may_branch(f.definition) for f in called if hasattr(f, "definition")):
                return True
        return False


def called_by(graph: Any, operation: Any) -> list[Any]:
    """The graphs of the functions that *operation* of *graph* calls, those that are known."""
    graphs = [getattr(one, "graph", None) for one in _functions_of(graph, operation)]
    return [one for one in graphs if one is not None]


def body_of(graph: Any, loop: Any) -> Any | None:
    """The graph of one iteration of *loop* in *graph*; None if it is not known."""
    return getattr(_body_function(graph, loop), "graph", None)


def _body_function(graph: Any, loop: Any) -> Any:
    return graph._get_function(loop.get_attr("body").name)


def _functions_of(graph: Any, operation: Any) -> list[Any]:
    """The functions that *operation* of *graph* calls."""
    values = operation.node_def.attr.values()
    names = [value.func.name for value in values if value.HasField("func")]
    names += [function.name for value in values for function in value.list.func]
    found = [graph._get_function(name) for name in names]
    return [function for function in found if function is not None]


def gives_shape(operation: Any) -> bool:
    """Whether *operation* returns the shape of a tensor and none of its values."""
    return operation.type in _SHAPES


def is_exchange(operation: Any) -> bool:
    """Whether *operation* is an exchange between the ranks."""
    return operation.type in _PYTHON or operation.type.startswith("Matex")


def is_same_on_all_ranks(operation: Any) -> bool:
    """Whether *operation* is an exchange, or returns a value that the script set for all rows."""
    return is_exchange(operation) or ONE_FOR_ALL in operation.name
