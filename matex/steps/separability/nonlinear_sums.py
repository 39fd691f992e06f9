"""Nonlinear functions of sums over the rows of a batch: their parts do not add up.

The trial of a few rows finds only a function that is nonlinear at these rows: not a clipped
gradient that is still small, a penalty above a threshold that is not yet reached, or a square
whose factor is zero until later. The graph shows all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from matex.keras_hooks.batch_moments import MOMENTS
from matex.steps.separability.branches import (
    BRANCHES,
    CALLS,
    LOOPS,
    body_of,
    called_by,
    gives_shape,
    is_same_on_all_ranks,
)
from matex.steps.separability.graph_results import (
    ASSIGNMENTS,
    is_variable,
    kept_of,
    leading_to,
    results_of,
)
from matex.steps.separability.value_lengths import ValueLengths

__all__ = ["nonlinear_in_states", "nonlinear_in_sums"]

_ROW, _SUM = 1, 2
"""How a value is made of rows: each of its own, or all of several ones. Else it is 0."""

_PRODUCTS = ("Mul", "MulNoNan", "MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "Einsum")
_DIVISIONS = ("RealDiv", "Div", "DivNoNan", "Xdivy")
_CHOICES = ("Select", "SelectV2")
_COUNTS = ("Bincount", "DenseBincount", "HistogramFixedWidth")  # of all elements of a vector
_UNIQUE = ("UniqueWithCounts", "UniqueWithCountsV2")
_NONLINEAR = (
    "Abs", "Acos", "Acosh", "ArgMax", "ArgMin", "Asin", "Asinh", "Atan", "Atan2", "Atanh", "Ceil",
    "ClipByValue", "ComplexAbs", "Cos", "Cosh", "Digamma", "Elu", "Equal", "Erf", "Erfc", "Erfinv",
    "Exp", "Expm1", "Floor", "FloorDiv", "FloorMod", "Greater", "GreaterEqual", "IsFinite", "IsInf",
    "IsNan", "L2Loss", "LeakyRelu", "Less", "LessEqual", "Lgamma", "Log", "Log1p", "LogSoftmax",
    "Max", "Maximum", "Min", "Minimum", "NotEqual", "Pow", "Prod", "Reciprocal", "Relu", "Relu6",
    "Rint", "Round", "Rsqrt", "Selu", "Sigmoid", "Sign", "Sin", "Sinh", "Softmax", "Softplus",
    "Softsign", "Sqrt", "Square", "SquaredDifference", "Tan", "Tanh",
)  # fmt: skip


def nonlinear_in_sums(function: Any, gradients: list[Any] | None = None) -> str:
    """The reason why a result of *function* does not add up over rows; "" if all do. Local.

    Results are the gradients and the values that the step returns.

    What is assigned to variables counts, too. A value that follows from rows but has no axis of
    them is a sum. Loops are not searched.

    Args:
        function: concrete function of a batch and a control vector.
        gradients: tensors of its graph; by default those that are exchanged in the graph.
    """
    graph = function.graph
    rows = len(graph.inputs) - len(function.captured_inputs) - 1
    inputs = [_ROW] * rows + [0] * (len(graph.inputs) - rows)
    found = _Search(graph, inputs, results_of(function, gradients)).found
    if not found:
        return ""
    return f"a gradient, a variable or a returned value is made by {found} of a sum over rows"


def nonlinear_in_states(function: Any, states: Iterable[Any]) -> str:
    """The type of an operation by which *states* are made of what they were; "" if all add up.

    Local. An operation that is linear in them is none: what they count is added to them.

    Args:
        function: concrete function that changes *states*.
        states: variables of TensorFlow.
    """
    graph = function.graph
    handles = {id(state.handle) for state in states}
    kept = {id(inner) for outer, inner in graph.captures if id(outer) in handles}
    inputs = [_SUM if id(tensor) in kept else 0 for tensor in graph.inputs]
    return _Search(graph, inputs, kept_of(graph)).found


class _Search:
    """Search of *graph* for a nonlinear function of a sum on the way to *wanted*.

    ``found`` is the type of such an operation, "" for none; ``outputs`` is the kind of each output
    of the graph, ``_ROW``, ``_SUM`` or 0.

    Args:
        inputs: kind of each input of the graph.
    """

    def __init__(self, graph: Any, inputs: list[int], wanted: list[Any]) -> None:
        self._graph = graph
        self._leading = leading_to(wanted, graph)
        self.found = ""
        self._made = dict(zip(map(id, graph.inputs), inputs, strict=True))
        lengths = ValueLengths()
        for operation in graph.get_operations():
            given = self._kinds(operation.inputs)
            if lengths.are_used_by(operation, any(given)):
                given = [_SUM, *given[1:]]
            if any(given) and not _is_known(operation):
                made = self._made_by(operation, given)
                self._made |= zip(map(id, operation.outputs), made, strict=True)
            if operation.type in ASSIGNMENTS:
                kept = given[0] if operation.type != ASSIGNMENTS[0] else 0
                self._made[id(operation.inputs[0])] = max(kept, given[1])
        self.inputs, self.outputs = self._kinds(graph.inputs), self._kinds(graph.outputs)

    def _kinds(self, tensors: Iterable[Any]) -> list[int]:
        return [self._made.get(id(tensor), 0) for tensor in tensors]

    def _made_by(self, operation: Any, given: list[int]) -> list[int]:
        """The kinds of the outputs of *operation*, of whose inputs the kinds are *given*."""
        if operation.type in BRANCHES:
            return self._within(operation, operation.inputs[1:], given[1:])
        if operation.type in CALLS:
            return self._within(operation, operation.inputs, given)
        if operation.type in LOOPS:
            return self._around(operation, given)
        if operation.name in self._leading and _is_nonlinear(operation.type, given):
            self.found = self.found or str(operation.type)
        return [
            _SUM if _is_sum(tensor) or _is_count(tensor) else max(given)
            for tensor in operation.outputs
        ]

    def _within(self, operation: Any, handed: Sequence[Any], given: list[int]) -> list[int]:
        """The kinds that the functions of *operation* return; they are searched, too.

        Args:
            handed: tensors that the functions are called with.
            given: kinds of these.
        """
        inside: list[_Search] = []
        for inner in called_by(self._graph, operation):
            ends = list(inner.outputs) if operation.name in self._leading else []
            inside.append(_Search(inner, given, [*ends, *kept_of(inner)]))
            self.found = self.found or inside[-1].found
        if not inside:  # functions without graphs: which output is made of which input is unknown
            return [_SUM if _is_sum(tensor) else _ROW for tensor in operation.outputs]
        after = [max(each) for each in zip(*(search.inputs for search in inside), strict=True)]
        given_back = zip(handed, after, strict=True)
        self._made |= {id(one): kind for one, kind in given_back if is_variable(one)}
        return [max(each) for each in zip(*(search.outputs for search in inside), strict=True)]

    def _around(self, loop: Any, given: list[int]) -> list[int]:
        """The kinds of the variables of *loop* after any number of iterations, without a search."""
        body = body_of(self._graph, loop)
        before: list[int] = []
        while body is not None and given != before:
            before = given
            after = _Search(body, given, []).outputs
            given = [max(pair) for pair in zip(given, after, strict=True)]
        return given


def _is_known(operation: Any) -> bool:
    """Whether *operation* does not follow from rows, or is part of sums that matex makes itself."""
    return gives_shape(operation) or is_same_on_all_ranks(operation) or MOMENTS in operation.name


def _is_nonlinear(kind: str, given: list[int]) -> bool:
    """Whether an operation of a *kind* is not linear in the sums among what it is *given*."""
    if kind in _PRODUCTS:
        return _SUM in given and given.count(0) < len(given) - 1
    if kind in _DIVISIONS:
        return given[1] == _SUM or (given[0] == _SUM and given[1] != 0)
    if kind in _CHOICES:
        return given[0] == _SUM
    return kind in _NONLINEAR and _SUM in given


def _is_count(tensor: Any) -> bool:
    """Whether *tensor* counts equal elements, whatever its shape. Of a matrix each row has its own.

    A number of classes that follows from their largest leaves the shape open.
    """
    made_by = tensor.op
    if made_by.type in _UNIQUE:
        return int(tensor.value_index) == 2
    return made_by.type in _COUNTS and made_by.inputs[0].shape.rank == 1


def _is_sum(tensor: Any) -> bool:
    """Whether *tensor*, made of rows, has no axis of them. Lengths, which are integers, do not."""
    is_number = tensor.dtype.is_floating or tensor.dtype.is_complex
    return is_number and bool(tensor.shape.is_fully_defined())
