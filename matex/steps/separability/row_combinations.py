"""Effects of operations on several tensors, in which the rows of the batch meet. Local.

Rows that are broadcast against each other, or meet in another order, are combined with others.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from matex.steps.graphs.graph_inspection import constant_of
from matex.steps.separability.row_places import OPEN, RowEffect, RowPlace, moved

__all__ = ["rows_made"]

_ELEMENTWISE = frozenset((
    "Abs", "Add", "AddN", "AddV2", "Atan2", "BiasAdd", "Bucketize", "Cast", "Ceil", "CheckNumerics",
    "ClipByValue", "Cos", "Cosh", "Digamma", "Div", "DivNoNan", "Elu", "EluGrad", "Equal", "Erf",
    "Erfc", "Exp", "Expm1", "Floor", "FloorDiv", "FloorMod", "Greater", "GreaterEqual", "Identity",
    "IsFinite", "IsInf", "IsNan", "LeakyRelu", "LeakyReluGrad", "Less", "LessEqual", "Lgamma",
    "Log", "Log1p", "LogicalAnd", "LogicalNot", "LogicalOr", "Maximum", "Minimum", "Mul",
    "MulNoNan", "Neg", "NotEqual", "Pow", "PreventGradient", "RealDiv", "Reciprocal", "Relu",
    "Relu6", "Relu6Grad", "ReluGrad", "Round", "Rsqrt", "RsqrtGrad", "Select", "SelectV2", "Selu",
    "SeluGrad", "Sigmoid", "SigmoidGrad", "Sign", "Sin", "Sinh", "Softplus", "SoftplusGrad",
    "Softsign", "Sqrt", "SqrtGrad", "Square", "SquaredDifference", "StopGradient", "Sub", "Tan",
    "Tanh", "TanhGrad", "Xdivy", "Xlogy",
))  # fmt: skip
_CROSS_ENTROPIES = ("SoftmaxCrossEntropyWithLogits", "SparseSoftmaxCrossEntropyWithLogits")
_PRODUCTS = ("MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
_ALIKE = ("OnesLike", "ZerosLike")  # of the shape of rows, and of none of their values
_LINEAR = ("Add", "AddN", "AddV2", "BiasAdd", "Cast", "CheckNumerics", "Identity", "Neg",
           "PreventGradient", "StopGradient", "Sub")  # fmt: skip
_MULTIPLIED = ("Div", "DivNoNan", "Mul", "MulNoNan", "RealDiv")
_NONLINEAR = (
    *_ELEMENTWISE.difference(_LINEAR, _MULTIPLIED), *_CROSS_ENTROPIES, "EuclideanNorm", "L2Loss",
    "LogSoftmax", "Max", "MaxPool", "Min", "Prod", "Softmax", "TopKV2",
)  # fmt: skip


def rows_made(operation: Any, given: list[RowPlace | None]) -> RowEffect:
    """Effect of *operation* on inputs whose rows are *given*, None for inputs without rows."""
    if operation.type in _ALIKE:
        return RowEffect(None)
    place, mixes = _effect(operation, given)
    is_linear = operation.type in _LINEAR
    takes_sum = any(rows is not None and rows.is_sum for rows in given)
    if place is not None and (takes_sum or (mixes and is_linear)):
        place = place._replace(is_sum=True)
    if takes_sum and operation.type in (*_MULTIPLIED, *_PRODUCTS, "Einsum"):
        mixes |= sum(rows is not None for rows in given) > 1
    elif takes_sum:
        mixes |= operation.type in _NONLINEAR
    return RowEffect(place, mixes and not is_linear)


def _effect(operation: Any, given: list[RowPlace | None]) -> RowEffect:
    """Effect of *operation*, whatever it does to sums of different rows."""
    for kinds, of_several in _OF_SEVERAL.items():
        if operation.type in kinds:
            return of_several(operation, given)
    return moved(operation, given[0])


def _joined(placed: Iterable[tuple[int, tuple[Any, ...] | None]]) -> tuple[int, Any, bool]:
    """The place of the rows in a result, their order, and whether rows of several places meet.

    Args:
        placed: place in the result and order of the rows of each input.
    """
    pairs = list(placed)
    places = {place for place, _ in pairs}
    orders = {order for _, order in pairs if order is not None}
    is_open = any(order is None for _, order in pairs) or len(orders) != 1
    order = None if is_open else next(iter(orders))
    return min(places), order, len(places) > 1 or len(orders) > 1


def _elementwise(operation: Any, given: list[RowPlace | None]) -> RowEffect:
    """The inputs are broadcast: their axes are counted from the last.

    Beside rows a fixed number of values, such as two, fits no part of the batch but a single row,
    which would be repeated.
    """
    rank = operation.outputs[0].shape.rank
    placed = []
    for tensor, rows in zip(operation.inputs, given, strict=True):
        if rows is None:
            continue
        if rows.axis is None or tensor.shape.rank is None or rank is None:
            return RowEffect(OPEN)
        placed.append((tensor.shape.rank - rows.axis, rows.order))
    from_last, order, mixes = _joined(placed)
    beside = [t.shape[-from_last] for t in operation.inputs if (t.shape.rank or 0) >= from_last]
    mixes |= any(length is not None and length > 1 for length in beside)
    return RowEffect(RowPlace(rank - from_last, order), mixes)


def _cross_entropy(operation: Any, given: list[RowPlace | None]) -> RowEffect:
    """Labels, by rows or by classes, beside logits: the first axis is the rows'."""
    placed = [(rows.axis, rows.order) for rows in given if rows is not None]
    if any(axis != 0 for axis, _ in placed):
        return RowEffect(OPEN, mixes=given[0] is not None and given[0].axis == 1)
    _, order, mixes = _joined([(0, order) for _, order in placed])
    return RowEffect(RowPlace(0, order), mixes)


def _product(operation: Any, given: list[RowPlace | None]) -> RowEffect:
    """The products of matrices in the last two axes."""
    rank = operation.outputs[0].shape.rank
    names = ("transpose_a", "transpose_b") if operation.type == "MatMul" else ("adj_x", "adj_y")
    kept: list[tuple[int, Any]] = []
    summed: list[tuple[int, Any]] = []
    for number, (tensor, rows) in enumerate(zip(operation.inputs, given, strict=True)):
        if rows is None:
            continue
        if rows.axis is None or tensor.shape.rank is None or rank is None:
            return RowEffect(OPEN)
        from_last = tensor.shape.rank - rows.axis
        if from_last <= 2 and operation.get_attr(names[number]):
            from_last = 3 - from_last
        is_summed = from_last == (1, 2)[number]
        (summed if is_summed else kept).append((from_last, rows.order))
    return _contracted(rank, kept, summed)


def _contracted(rank: int, kept: list[tuple[int, Any]], summed: list[tuple[int, Any]]) -> RowEffect:
    orders = {order for _, order in summed if order is not None}
    if not kept:
        return RowEffect(None, mixes=len(orders) > 1)
    from_last, order, mixes = _joined(kept)
    return RowEffect(RowPlace(rank - from_last, order), mixes)


def _einsum(operation: Any, given: list[RowPlace | None]) -> RowEffect:
    equation = operation.get_attr("equation").decode().replace(" ", "")
    if "." in equation or "->" not in equation:
        return RowEffect(OPEN)
    of_inputs, result = equation.split("->")
    kept: list[tuple[int, Any]] = []
    summed: list[tuple[int, Any]] = []
    for labels, rows in zip(of_inputs.split(","), given, strict=True):
        if rows is None:
            continue
        if rows.axis is None or rows.axis >= len(labels):
            return RowEffect(OPEN)
        place = result.find(labels[rows.axis])
        (summed if place < 0 else kept).append((len(result) - place, rows.order))
    return _contracted(len(result), kept, summed)


def _gathered(operation: Any, given: list[RowPlace | None]) -> RowEffect:
    """Slices of the first input at the places that the second names."""
    table, places = given[:2]
    axis = constant_of(operation.inputs[2]) if len(operation.inputs) > 2 else 0
    batched = operation.get_attr("batch_dims") if operation.type == "GatherV2" else 0
    if table is None:
        is_looked_up = places is not None and places.axis is not None and axis == 0 == batched
        return RowEffect(places if is_looked_up else OPEN)
    rank = operation.inputs[0].shape.rank
    if table.axis is None or rank is None or axis is None:
        return RowEffect(OPEN)
    axis = int(axis) % rank
    if axis != table.axis:
        return RowEffect(RowPlace(table.axis, table.order) if table.axis < axis else OPEN)
    if batched or table.order is None or operation.inputs[1].shape.rank != 1:
        return RowEffect(OPEN)
    chosen = "selected" if places is not None and _selects(operation.inputs[1]) else "chosen"
    return RowEffect(RowPlace(axis, (*table.order, (chosen, operation.inputs[1].name))))


def _selects(indices: Any) -> bool:
    """Whether *indices* are those of true values."""
    operation = indices.op
    while operation.type in ("Squeeze", "Reshape", "Cast", "Identity"):
        operation = operation.inputs[0].op
    return bool(operation.type == "Where")


def _concatenated(operation: Any, given: list[RowPlace | None]) -> RowEffect:
    rank = operation.outputs[0].shape.rank
    axis = constant_of(operation.inputs[-1])
    placed = [(rows.axis, rows.order) for rows in given if rows is not None]
    if rank is None or axis is None or any(place is None for place, _ in placed):
        return RowEffect(OPEN)
    place, order, mixes = _joined([(axis_ or 0, order) for axis_, order in placed])
    if int(axis) % rank == place:
        return RowEffect(RowPlace(place, None))
    return RowEffect(RowPlace(place, order), mixes)


def _packed(operation: Any, given: list[RowPlace | None]) -> RowEffect:
    rank = operation.outputs[0].shape.rank
    placed = [(rows.axis, rows.order) for rows in given if rows is not None]
    if rank is None or any(place is None for place, _ in placed):
        return RowEffect(OPEN)
    place, order, mixes = _joined([(axis or 0, order) for axis, order in placed])
    return RowEffect(RowPlace(place + (operation.get_attr("axis") % rank <= place), order), mixes)


_OF_SEVERAL = {
    _ELEMENTWISE: _elementwise,
    _CROSS_ENTROPIES: _cross_entropy,
    _PRODUCTS: _product,
    ("Einsum",): _einsum,
    ("Gather", "GatherV2"): _gathered,
    ("ConcatV2",): _concatenated,
    ("Pack",): _packed,
}
