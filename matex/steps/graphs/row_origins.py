"""Rows of the batch in the tensors of a graph: which tensors have some for each. Local.

A tensor is traced back to the tensors of the batch by operations that treat each row by itself,
so it has as many numbers for a row as for any other. Where an axis is free, these are at most as
many as the batch's own sizes say: then no operation on the way may make an axis longer. Random
numbers that a step draws count as rows, too, where it draws for as many rows as a tensor of the
batch has.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from matex import keras_hooks
from matex.steps.graphs.free_axes import free_axes, known_size, sizes_of
from matex.steps.graphs.graph_inspection import constant_of
from matex.steps.graphs.measured_axis import measured_axis

__all__ = ["RowOrigin", "RowOrigins"]

# Operations whose result has one row for each row of those inputs whose number of rows is free.
_BY_ROWS = frozenset(
    (
        "Abs",
        "AddV2",
        "AsString",
        "AvgPool",
        "BiasAdd",
        "Bitcast",
        "BitwiseAnd",
        "Bucketize",
        "Cast",
        "Ceil",
        "Conv2D",
        "DepthwiseConv2dNative",
        "Elu",
        "EnsureShape",
        "Equal",
        "Erf",
        "Exp",
        "ExpandDims",
        "Expm1",
        "Floor",
        "FloorDiv",
        "FloorMod",
        "FusedBatchNormV3",
        "Greater",
        "GreaterEqual",
        "Identity",
        "LeakyRelu",
        "Less",
        "LessEqual",
        "Log",
        "Log1p",
        "LogSoftmax",
        "LogicalAnd",
        "LogicalNot",
        "LogicalOr",
        "LookupTableFindV2",
        "MaxPool",
        "Maximum",
        "Minimum",
        "Mul",
        "Neg",
        "NotEqual",
        "OneHot",
        "Pow",
        "RealDiv",
        "Relu",
        "Relu6",
        "Round",
        "Rsqrt",
        "SelectV2",
        "Selu",
        "Sigmoid",
        "Sign",
        "Softmax",
        "Softplus",
        "Softsign",
        "Sqrt",
        "Square",
        "SquaredDifference",
        "Squeeze",
        "StaticRegexReplace",
        "StopGradient",
        "StridedSlice",
        "StringLower",
        "StringToHashBucketFast",
        "StringToHashBucketStrong",
        "StringUpper",
        "Sub",
        "Tanh",
        "TopKV2",
    )
)
# Operations that combine values along given axes.
_REDUCTIONS = ("ArgMax", "ArgMin", "Max", "Mean", "Min", "Prod", "Sum")
# Products, whose second factor has no rows, and look-ups: places of the input with rows.
_PRODUCTS = {"MatMul": 0, "BatchMatMulV2": 0}
_LOOK_UPS = {"GatherV2": 1, "ResourceGather": 1}
_DEPTH = 200


class RowOrigin(NamedTuple):
    """Origin of a tensor whose first axis is the batch's."""

    tensors: frozenset[int] = frozenset()
    """Numbers of the tensors of the batch that it was computed from."""
    sizes: int | None = None
    """Identity of a tensor with its free sizes; None if nothing bounds these."""
    neighbours: int = 1
    """Number of its rows for each row of the batch."""


class _Leaf(NamedTuple):
    """Number of a tensor of the batch, or of the one that a tensor is a component of."""

    number: int
    is_dense: bool


class RowOrigins:
    """Origins of the tensors of a graph, seen from the tensors of its *batch*. Local.

    ``known_sizes`` are the products of the known sizes of these, but for the rows.
    """

    def __init__(self, batch: Any) -> None:
        self._leaves: dict[int, _Leaf] = {}
        self._found: dict[int, RowOrigin | None] = {}
        self.known_sizes: list[int] = []
        for number, leaf in enumerate(keras_hooks.flatten(batch)):
            parts = keras_hooks.components_of(leaf)
            is_dense = len(parts) == 1 and parts[0] is leaf
            self.known_sizes.append(known_size(leaf))
            self._leaves |= {id(part): _Leaf(number, is_dense) for part in parts}

    def of(self, tensor: Any) -> RowOrigin | None:
        """Origin of *tensor*; None if its first axis may not be the batch's."""
        return self._of(tensor, _DEPTH)

    def _of(self, tensor: Any, depth: int) -> RowOrigin | None:
        if id(tensor) not in self._found:
            self._found[id(tensor)] = self._traced(tensor, depth - 1) if depth else None
        return self._found[id(tensor)]

    def _traced(self, tensor: Any, depth: int) -> RowOrigin | None:
        operation = tensor.op
        kind = operation.type
        if kind == "Placeholder":
            return self._given(tensor)
        if kind == "RaggedTensorToTensor":  # as TextVectorization ends
            return self._padded(operation, depth)
        if kind == "EnsureShape" and (count := _rows_drawn(tensor)) is not None:
            return self._drawn(tensor, count, depth)
        if not tensor.shape.rank or tensor.shape[0] is not None:
            return None
        if kind == "Reshape" and not free_axes(tensor):
            return self._in_pieces(tensor, known_size(tensor), depth)
        if kind == "Transpose":
            return self._transposed(tensor, depth)
        if kind in _REDUCTIONS or kind == "ConcatV2":
            return self._along_others(tensor, depth)
        if kind in _PRODUCTS or kind in _LOOK_UPS:
            return self._of_one(tensor, depth)
        return self._by_rows(tensor, operation.inputs, depth) if kind in _BY_ROWS else None

    def _by_rows(self, tensor: Any, inputs: Any, depth: int) -> RowOrigin | None:
        """Origin of *tensor*, which has a row for each row of the *inputs* that have some."""
        free = [each for each in inputs if each.shape.rank and each.shape[0] is None]
        origins = [self._of(each, depth) for each in free]
        known = [origin for origin in origins if origin is not None]
        if not known or len(known) < len(origins) or len({each.neighbours for each in known}) > 1:
            return None
        tensors = frozenset().union(*(origin.tensors for origin in known))
        sizes = sizes_of(tensor, {id(each): o.sizes for each, o in zip(free, known, strict=True)})
        return RowOrigin(tensors, sizes, known[0].neighbours)

    def _in_pieces(self, reshaped: Any, size: int, depth: int) -> RowOrigin | None:
        """Origin of a *reshaped* tensor, whose rows have *size* numbers."""
        source = reshaped.op.inputs[0]
        if not source.shape.rank or source.shape[0] is not None:
            return None
        rows = self._of(source, depth)
        if rows is None or free_axes(source):
            return None
        numbers = rows.neighbours * known_size(source)
        if not size or numbers % size:
            return None
        return RowOrigin(rows.tensors, id(reshaped), numbers // size)

    def _transposed(self, tensor: Any, depth: int) -> RowOrigin | None:
        """Origin of *tensor*, whose other axes are in another order."""
        source, order = tensor.op.inputs
        axes = constant_of(order)
        rows = None if axes is None or axes[0] else self._by_rows(tensor, [source], depth)
        return rows and _if_known(tensor, rows)

    def _along_others(self, tensor: Any, depth: int) -> RowOrigin | None:
        """Origin of *tensor*, which puts together values along other axes than that of rows."""
        *inputs, along = tensor.op.inputs
        axes, rank = constant_of(along), inputs[0].shape.rank
        if axes is None or not rank or any(int(axis) % rank == 0 for axis in axes.ravel()):
            return None
        rows = self._by_rows(tensor, inputs, depth)
        return rows and _if_known(tensor, rows)

    def _of_one(self, tensor: Any, depth: int) -> RowOrigin | None:
        """Origin of *tensor*, which has the rows of one input, and the others have none."""
        operation = tensor.op
        place = {**_PRODUCTS, **_LOOK_UPS}[operation.type]
        table = operation.inputs[1 - place]
        is_table = operation.type == "ResourceGather" or (
            table.shape.rank is not None and table.shape[:1].is_fully_defined()
        )
        if operation.type == "GatherV2":
            axis = constant_of(operation.inputs[2])
            is_table &= axis is not None and int(axis) == 0 == operation.get_attr("batch_dims")
        if operation.type == "ResourceGather":
            is_table &= operation.get_attr("batch_dims") == 0
        if operation.type == "MatMul":
            is_table &= not operation.get_attr("transpose_a")
            factor = operation.inputs[0]
            if is_table and factor.op.type == "Reshape" and free_axes(factor):  # of tf.tensordot
                size = table.shape[int(operation.get_attr("transpose_b"))] or 0
                rows = self._in_pieces(factor, size, depth)
                return rows and _if_known(tensor, rows)
        rows = self._by_rows(tensor, [operation.inputs[place]], depth) if is_table else None
        return rows and _if_known(tensor, rows)

    def _given(self, tensor: Any) -> RowOrigin | None:
        leaf = self._leaves.get(id(tensor))
        if tensor.dtype.name == "resource" or (leaf is not None and not leaf.is_dense):
            return None
        if leaf is None:
            return RowOrigin()
        return RowOrigin(frozenset({leaf.number}), id(tensor))

    def _drawn(self, tensor: Any, count: Any, depth: int) -> RowOrigin | None:
        """Origin of random numbers, drawn for *count* rows."""
        measured = measured_axis(count)
        if measured.tensor is None or measured.axis:
            return None
        rows = self._of(measured.tensor, depth)
        return rows and _if_known(tensor, rows)

    def _padded(self, padding: Any, depth: int) -> RowOrigin | None:
        """Origin of what *padding* makes of ragged inputs, or of texts that were split."""
        shape, _, _, partition, *further = padding.inputs
        if padding.get_attr("row_partition_types")[0] == b"ROW_SPLITS":
            leaf = self._leaves.get(id(partition))
            if leaf is None or leaf.is_dense:
                return None
            given = {self._leaves.get(id(each)) for each in further}
            is_bounded = given <= {leaf} and constant_of(shape) is not None
            return RowOrigin(frozenset({leaf.number}), id(padding) if is_bounded else None)
        source = partition.op.inputs[0] if partition.op.type == "StridedSlice" else partition
        if source.op.type != "StringSplitV2" or source is not source.op.outputs[2]:
            return None
        first = constant_of(partition.op.inputs[1])
        is_first = first is not None and first == [0]
        rows = self._of(source.op.inputs[0], depth) if is_first else None
        return None if rows is None else rows._replace(sizes=None)


def _if_known(tensor: Any, rows: RowOrigin) -> RowOrigin:
    """*rows* of *tensor*, whose free sizes, if it has some, follow from nothing."""
    return rows._replace(sizes=None if free_axes(tensor) else id(tensor))


def _rows_drawn(tensor: Any) -> Any | None:
    """Number of rows that *tensor* was drawn for, itself a tensor; None for other tensors."""
    operation = tensor.op.inputs[0].op
    while operation.type == "Identity":
        operation = operation.inputs[0].op
    if operation.type not in ("If", "StatelessIf"):
        return None
    names = ((each.op.name.rpartition("/")[2], each) for each in operation.inputs)
    named = (each for name, each in names if name.startswith(keras_hooks.ROWS_DRAWN))
    return next(named, None)
