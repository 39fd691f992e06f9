"""Functions of ``keras.ops``, written as ``x + y``, ``ops.relu(x)`` or ``ops.mean(x, 1)``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from matex import keras_hooks
from matex.apoptosis.graph import kinds
from matex.apoptosis.graph.network import Network, Tag
from matex.apoptosis.graph.rules import contraction, moves, shapes
from matex.apoptosis.graph.rules.shapes import merged, unknown

__all__ = ["operation"]

Tags = list[Tag | None]
Rule = Callable[[Network, Any, Tags], Tags]


def operation(net: Network, call: Any, tags: Tags) -> Tags:
    """Tags after a function with known effect on units."""
    name = type(call.operation).__name__
    if not any(tags):
        return [None] * len(call.outputs)
    if name in kinds.ELEMENTWISE_OPS and len(call.outputs) == 1 and not _holds_units(call, tags):
        return [_elementwise(net, call, tags, name)]
    return _RULES.get(name, unknown)(net, call, tags)


def _elementwise(net: Network, call: Any, tags: Tags, name: str) -> Tag | None:
    tag = merged(net, call, tags)
    scales = name in kinds.LINEAR_OPS | kinds.SCALING_OPS and len(call.inputs) == len(
        [leaf for leaf in keras_hooks.flatten(call.args) if leaf is not None]
    )
    if tag is not None and not scales:
        net.units.mark_inhomogeneous(tag.units)
    return tag


def _reduced(net: Network, call: Any, tags: Tags) -> Tags:
    """Tags after a mean, a maximum or similar over other axes than the units'."""
    axes, tag = _axes(call), tags[0]
    if tag is None or len(tags) > 1 or 0 in axes:
        return unknown(net, call, tags)
    if tag.axis in axes:
        net.leave(call.operation, tags, "it brings the units down to one number")
        return [None] * len(call.outputs)
    if type(call.operation).__name__ not in ("Mean", "Sum"):
        net.units.mark_inhomogeneous(tag.units)
        tag = tag._replace(source=None)
    if not getattr(call.operation, "keepdims", False):
        tag = tag._replace(axis=tag.axis - sum(axis < tag.axis for axis in axes))
    return [tag] * len(call.outputs)


def _along(net: Network, call: Any, tags: Tags) -> Tags:
    """The tags after a softmax, a running sum and the like along other axes than the units'."""
    axes, tag = _axes(call), tags[0]
    if tag is None or len(tags) > 1 or len(call.outputs) > 1:
        return unknown(net, call, tags)
    if tag.axis in axes:
        net.leave(call.operation, tags, "it mixes the units")
        return [None]
    net.units.mark_inhomogeneous(tag.units)
    return [tag._replace(source=None)]


def _padded(net: Network, call: Any, tags: Tags) -> Tags:
    """The tags after padding along other axes than the units'."""
    tag = tags[0]
    if tag is None or len(tags) > 1:
        return unknown(net, call, tags)
    pairs = np.broadcast_to(np.array(call.operation.pad_width), (len(call.inputs[0].shape), 2))
    if pairs[[0, tag.axis]].any():
        return unknown(net, call, tags)
    net.units.mark_inhomogeneous(tag.units)
    return [tag._replace(source=None)]


def _in_space(net: Network, call: Any, tags: Tags) -> Tags:
    """The tags after pooling, resizing and the like, which treat each channel by itself."""
    if len(tags) > 1:
        return unknown(net, call, tags)
    tag = shapes.spatial(net, call, tags[0])
    if tag is not None:
        net.units.mark_inhomogeneous(tag.units)
    return [tag and tag._replace(source=None)]


def _axes(call: Any) -> list[int]:
    """Axes that an option names; all axes if it names none."""
    rank = len(call.inputs[0].shape)
    given = call.operation.axes if hasattr(call.operation, "axes") else call.operation.axis
    return list(range(rank)) if given is None else [a % rank for a in np.ravel(given).tolist()]


def _holds_units(call: Any, tags: Tags) -> bool:
    """Whether an array among the arguments has an entry per unit."""
    ends = [tag.axis - len(x.shape) for x, tag in zip(call.inputs, tags, strict=True) if tag]
    symbolic = set(map(id, call.inputs))
    leaves = keras_hooks.flatten([call.args, call.kwargs])
    arrays = [np.shape(x) for x in leaves if id(x) not in symbolic and not isinstance(x, str)]
    return any(len(shape) >= -end and shape[end] != 1 for shape in arrays for end in ends)


_RULES: dict[str, Rule] = {
    **dict.fromkeys(moves.MOVES, moves.moved),
    **dict.fromkeys(kinds.REDUCTIONS, _reduced),
    **dict.fromkeys(kinds.ALONG_AN_AXIS, _along),
    **dict.fromkeys(kinds.IN_SPACE, _in_space),
    "ArraySplit": moves.split,
    "DotProductAttention": contraction.dot_product_attention,
    "Einsum": contraction.einsum,
    "GetItem": moves.parts_taken,
    "Glu": moves.gated,
    "Matmul": contraction.matmul,
    "Pad": _padded,
    "Reshape": moves.reshaped,
    "Split": moves.split,
    "Unstack": moves.unstacked,
}
