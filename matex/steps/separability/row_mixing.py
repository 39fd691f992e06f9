"""Rows of a batch that meet in a step: its parts on several ranks do not add up.

The trial of a few rows finds only what those rows show: not a contrastive loss whose weight is zero
until later, rows of one class where no two of them are, or rows that are mixed after some steps.
The graph shows all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from matex import keras_hooks
from matex.keras_hooks.batch_moments import MOMENTS
from matex.steps.graphs.graph_inspection import constant_of
from matex.steps.separability.branches import (
    BRANCHES,
    CALLS,
    LOOPS,
    called_by,
    gives_shape,
    is_same_on_all_ranks,
)
from matex.steps.separability.graph_results import kept_of, leading_to, results_of
from matex.steps.separability.row_combinations import rows_made
from matex.steps.separability.row_indices import name_each_row
from matex.steps.separability.row_numbers import RowNumbers
from matex.steps.separability.row_places import BATCH, OPEN, RowPlace

__all__ = ["combined_rows", "mixed_rows"]


def mixed_rows(function: Any, gradients: list[Any] | None = None) -> str:
    """The reason why a result of *function* is made of rows that meet, or by their number. Local.

    It is "" if none is. Results are the gradients and the values that the step returns. Loops are
    not searched.

    Args:
        function: concrete function of a batch and a control vector.
        gradients: tensors of its graph; by default those that are exchanged in the graph.
    """
    graph = function.graph
    *batch, _ = function.structured_input_signature[0]
    inputs = [place for spec in keras_hooks.flatten(batch) for place in _places_in(spec)]
    inputs += [None] * (len(graph.inputs) - len(inputs))
    search = _RowSearch(graph, inputs, results_of(function, gradients))
    if search.found:
        return f"{search.found} combines rows of the batch with others"
    return search.decides and f"{search.decides} decides by the number of rows"


def combined_rows(function: Any) -> str:
    """Type of an operation that makes outputs of several rows, or of one for all. Local.

    It is "" if there is none: then each row of the outputs is made of one of the batch, but for
    what loops do and for values that depend on the place of a row.

    Args:
        function: concrete function of a batch with a free number of rows, and of nothing else.
    """
    graph = function.graph
    specs = keras_hooks.flatten(function.structured_input_signature)
    inputs = [place for spec in specs for place in _places_in(spec)]
    inputs += [None] * (len(graph.inputs) - len(inputs))
    search = _RowSearch(graph, inputs, list(graph.outputs), sums_mix=True)
    return search.found or search.decides


def _places_in(spec: Any) -> list[RowPlace | None]:
    """Places of rows in the tensors of which one of *spec* consists; open if it is not dense."""
    components = [] if spec is None else keras_hooks.components_of(spec)
    if components == [spec]:
        return [BATCH]
    return [None if part.shape.is_fully_defined() else OPEN for part in components]  # a shape


class _RowSearch:
    """Search of *graph* for an operation that combines rows, on the way to *wanted*.

    ``found`` is the type of such an operation, "" for none; ``decides`` is that of one that decides
    by the number of rows, see :class:`RowNumbers`; ``outputs`` are the rows in each output of the
    graph.

    Args:
        inputs: rows in each input of the graph; None for an input without rows.
        sums_mix: whether a value that is made of all rows, such as their mean, or of a certain row
            counts as such. False by default.
    """

    def __init__(
        self,
        graph: Any,
        inputs: Sequence[RowPlace | None],
        wanted: list[Any],
        *,
        sums_mix: bool = False,
    ) -> None:
        self._graph = graph
        self._sums_mix = sums_mix
        self._leading = leading_to(wanted, graph)
        self.found = self.decides = ""
        self._rows = dict(zip(map(id, graph.inputs), inputs, strict=True))
        numbers = RowNumbers()
        for operation in graph.get_operations():
            given = self._of(operation.inputs)
            if numbers.decides(operation, given) and operation.name in self._leading:
                self.decides = self.decides or str(operation.type)
            if any(given) and not _is_known(operation):
                for tensor, rows in zip(
                    operation.outputs, self._made_by(operation, given), strict=True
                ):
                    is_sum = tensor.shape.is_fully_defined()
                    self._rows[id(tensor)] = None if is_sum else rows
                    if is_sum and sums_mix and operation.name in self._leading:
                        self._note_sum(operation, tensor)
        self.outputs = self._of(graph.outputs)

    def _note_sum(self, operation: Any, tensor: Any) -> None:
        """Note that *tensor* has no rows, but is made of some; a loop's lists are no such thing."""
        inside = operation.type in (*LOOPS, *CALLS, *BRANCHES)
        passed_on = operation.type in ("IdentityN", "StringSplitV2")  # a constant, a shape
        if not (inside or passed_on) and tensor.dtype.name not in ("variant", "resource"):
            self.found = self.found or str(operation.type)

    def _of(self, tensors: Iterable[Any]) -> list[RowPlace | None]:
        return [self._rows.get(id(tensor)) for tensor in tensors]

    def _made_by(self, operation: Any, given: list[RowPlace | None]) -> list[RowPlace | None]:
        """The rows in the outputs of *operation*, of whose inputs the rows are *given*."""
        if operation.type in BRANCHES:
            return self._within(operation, given[1:])
        if operation.type in CALLS:
            return self._within(operation, given)
        if operation.type in LOOPS:
            return [OPEN] * len(operation.outputs)
        if operation.type == "IdentityN":
            return given
        if operation.type == "GatherV2" and self._takes_each(operation, given[0]):
            return [given[0]]
        if self._sums_mix and operation.name in self._leading and _fills_up(operation):
            self.found = self.found or str(operation.type)
        made = rows_made(operation, given)
        adds = self._sums_mix and made.place is not None and made.place.is_sum
        if (made.mixes or adds) and operation.name in self._leading:
            self.found = self.found or str(operation.type)
        return [made.place] * len(operation.outputs)

    def _takes_each(self, operation: Any, rows: RowPlace | None) -> bool:
        """Whether *operation* gathers all *rows* of its first input in their order."""
        _, indices, axis = operation.inputs
        along = constant_of(axis)
        is_along = rows is not None and along is not None and int(along) == rows.axis
        return is_along and name_each_row(indices, lambda tensor: self._rows.get(id(tensor)))

    def _within(self, operation: Any, given: list[RowPlace | None]) -> list[RowPlace | None]:
        """The rows in what the functions of *operation* return; they are searched, too."""
        inside = []
        for inner in called_by(self._graph, operation):
            ends = list(inner.outputs) if operation.name in self._leading else []
            wanted = [*ends, *kept_of(inner)]
            inside.append(_RowSearch(inner, given, wanted, sums_mix=self._sums_mix))
            self.found = self.found or inside[-1].found
            self.decides = self.decides or inside[-1].decides
        if not inside:
            return [OPEN] * len(operation.outputs)
        return [_either(each) for each in zip(*(one.outputs for one in inside), strict=True)]


def _fills_up(operation: Any) -> bool:
    """Whether *operation* fills ragged rows up to the longest of all."""
    if operation.type != "RaggedTensorToTensor":
        return False
    shape = constant_of(operation.inputs[0])
    return shape is None or bool((np.ravel(shape)[1:] < 0).any() or np.ravel(shape).size < 2)


def _either(rows: Iterable[RowPlace | None]) -> RowPlace | None:
    """The rows in the result of a branch, of several that have *rows*."""
    some = {one for one in rows if one is not None}
    if len(some) > 1:
        return OPEN._replace(is_sum=any(one.is_sum for one in some))
    return some.pop() if some else None


def _is_known(operation: Any) -> bool:
    """Whether *operation* has no values of rows, or is part of sums that matex makes itself."""
    return gives_shape(operation) or is_same_on_all_ranks(operation) or MOMENTS in operation.name
