"""Places of the rows of the batch in the tensors of a graph. Local.

Each type of operation on one tensor moves them in its own way. What is not known of an operation is
left open, and rows in an open place or order fit any others.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from matex.steps.graphs.graph_inspection import constant_of

__all__ = ["BATCH", "OPEN", "RowEffect", "RowPlace", "moved"]


class RowPlace(NamedTuple):
    """The rows of the batch in one tensor."""

    axis: int | None
    """Axis of the rows; None if it is open."""
    order: tuple[Any, ...] | None
    """What was done to the order of the batch; None if it is open."""
    is_sum: bool = False
    """Whether they are sums of different rows, of which only a linear function adds up."""


BATCH = RowPlace(0, ())
OPEN = RowPlace(None, None)


class RowEffect(NamedTuple):
    """Effect of an operation on rows."""

    place: RowPlace | None
    """Place of rows in its results; None if they have none."""
    mixes: bool = False
    """Whether a row of a result is made of several rows, or a sum of them is not one of each."""


_REDUCTIONS = ("Sum", "Mean", "Max", "Min", "Prod", "EuclideanNorm")
_ALONG_THE_LAST = ("Softmax", "LogSoftmax", "TopKV2", "TopK", "FFT", "RFFT", "IFFT", "IRFFT")
_SCANS = ("Cumsum", "Cumprod", "CumulativeLogsumexp")
_MATRICES = ("Svd", "Cholesky", "MatrixInverse", "MatrixDeterminant", "LogMatrixDeterminant", "Qr",
             "SelfAdjointEigV2", "MatrixSolve", "MatrixBandPart")  # fmt: skip
_WINDOWS = ("Conv2D", "Conv3D", "DepthwiseConv2dNative", "MaxPool", "AvgPool", "MaxPool3D",
            "AvgPool3D")  # fmt: skip
_REVERSED = "reversed"


def moved(operation: Any, rows: RowPlace | None) -> RowEffect:
    """Effect of *operation* on its first input, in which *rows* are; other inputs say how."""
    rank = operation.inputs[0].shape.rank
    if rows is None or rows.axis is None or rank is None:
        return RowEffect(OPEN)
    kind = operation.type
    if kind in _REDUCTIONS:
        return _reduced(operation, rows, rank)
    if kind in _ALONG_THE_LAST:
        return RowEffect(rows, mixes=rows.axis == rank - 1)
    if kind in _MATRICES:
        return RowEffect(OPEN, mixes=rows.axis >= rank - 2)
    if kind in _WINDOWS:
        return RowEffect(rows, mixes=rows.axis != 0)
    if kind in _SCANS:
        return RowEffect(rows, mixes=rows.axis in _axes(operation.inputs[1], rank))
    move = _MOVES.get(kind)
    return RowEffect(OPEN if move is None else move(operation, rows, rank))


def _axes(tensor: Any, rank: int) -> set[int]:
    """The axes in *tensor*, counted from the first; none if they are not constant."""
    value = constant_of(tensor)
    return set() if value is None else {int(axis) % rank for axis in np.ravel(value)}


def _reduced(operation: Any, rows: RowPlace, rank: int) -> RowEffect:
    axes = _axes(operation.inputs[1], rank)
    if not axes or rows.axis is None:
        return RowEffect(OPEN)
    if rows.axis in axes:
        is_number = operation.inputs[0].dtype.is_floating
        is_extreme = operation.type not in ("Sum", "Mean") and is_number
        of_some = operation.type == "Mean" and any(k[0] == "selected" for k in rows.order or ())
        return RowEffect(None, mixes=is_extreme or of_some)
    before = 0 if operation.get_attr("keep_dims") else sum(axis < rows.axis for axis in axes)
    return RowEffect(RowPlace(rows.axis - before, rows.order))


def _transposed(operation: Any, rows: RowPlace, rank: int) -> RowPlace:
    axes = constant_of(operation.inputs[1])
    return OPEN if axes is None else RowPlace(axes.tolist().index(rows.axis), rows.order)


def _expanded(operation: Any, rows: RowPlace, rank: int) -> RowPlace:
    axes = _axes(operation.inputs[1], rank + 1)
    if not axes or rows.axis is None:
        return OPEN
    return RowPlace(rows.axis + (min(axes) <= rows.axis), rows.order)


def _squeezed(operation: Any, rows: RowPlace, rank: int) -> RowPlace:
    axes = {axis % rank for axis in operation.get_attr("squeeze_dims")}
    if not axes or rows.axis is None:
        return OPEN
    return RowPlace(rows.axis - sum(axis < rows.axis for axis in axes), rows.order)


def _reshaped(operation: Any, rows: RowPlace, rank: int) -> RowPlace:
    """Rows stay first, or move to the only axis of unknown length past axes of one."""
    before, after = operation.inputs[0].shape, operation.outputs[0].shape
    if after.rank is None or rows.axis is None or any(n != 1 for n in before[: rows.axis]):
        return OPEN
    unknown = [axis for axis, length in enumerate(after) if length is None]
    if len(unknown) > max(2, before.as_list().count(None)):
        return OPEN
    if unknown[:1] == [0]:
        return RowPlace(0, rows.order)
    return RowPlace(unknown[0], rows.order) if len(unknown) == 1 else OPEN


def _padded(operation: Any, rows: RowPlace, rank: int) -> RowPlace:
    return RowPlace(rows.axis, None)


def _one_hot(operation: Any, rows: RowPlace, rank: int) -> RowPlace:
    return rows if operation.get_attr("axis") == -1 else OPEN


def _reversed(operation: Any, rows: RowPlace, rank: int) -> RowPlace:
    if rows.axis not in _axes(operation.inputs[1], rank) or rows.order is None:
        return rows
    if rows.order[-1:] == (_REVERSED,):
        return RowPlace(rows.axis, rows.order[:-1])
    return RowPlace(rows.axis, (*rows.order, _REVERSED))


def _rolled(operation: Any, rows: RowPlace, rank: int) -> RowPlace:
    axes = constant_of(operation.inputs[2])
    shifts = constant_of(operation.inputs[1])
    if axes is None or shifts is None or rows.order is None:
        return OPEN
    by_axis = dict(zip(np.ravel(axes) % rank, np.ravel(shifts), strict=True))
    shift = int(by_axis.get(rows.axis, 0))
    if rows.order[-1:] == (("rolled", -shift),):
        return RowPlace(rows.axis, rows.order[:-1])
    return RowPlace(rows.axis, (*rows.order, ("rolled", shift)) if shift else rows.order)


def _sliced(operation: Any, rows: RowPlace, rank: int) -> RowPlace:
    """Row place of the result of a StridedSlice, which may add axes and drop some."""
    begin, end, stride = map(constant_of, operation.inputs[1:4])
    ellipsis, new, dropped, from_first, to_last = (
        operation.get_attr(f"{name}_mask")
        for name in ("ellipsis", "new_axis", "shrink_axis", "begin", "end")
    )
    count = operation.inputs[1].shape[0]
    if count is None or stride is None:
        return OPEN
    axis = place = 0
    for number in range(count):
        bit = 1 << number
        if ellipsis & bit:
            later = sum(not new & (1 << n) for n in range(number + 1, count))
            skipped = rank - later - axis
            if axis <= (rows.axis or 0) < axis + skipped:
                return RowPlace(place + (rows.axis or 0) - axis, rows.order)
            axis, place = axis + skipped, place + skipped
        elif new & bit:
            place += 1
        elif axis == rows.axis:
            if dropped & bit:
                return OPEN
            if from_first & bit and to_last & bit and stride[number] == 1:
                return RowPlace(place, rows.order)
            if begin is None or end is None or rows.order is None:
                return RowPlace(place, None)
            ends = (
                None if from_first & bit else int(begin[number]),
                None if to_last & bit else int(end[number]),
            )
            return RowPlace(place, (*rows.order, ("sliced", *ends, int(stride[number]))))
        else:
            axis, place = axis + 1, place + (not dropped & bit)
    return RowPlace(place + (rows.axis or 0) - axis, rows.order)


_MOVES = {
    "ExpandDims": _expanded,
    "OneHot": _one_hot,
    "Pad": _padded,
    "PadV2": _padded,
    "Reshape": _reshaped,
    "ReverseV2": _reversed,
    "Roll": _rolled,
    "Squeeze": _squeezed,
    "StridedSlice": _sliced,
    "Transpose": _transposed,
}
