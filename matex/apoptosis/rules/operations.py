"""Functions of ``keras.ops``, written as ``x + y``, ``ops.relu(x)`` or ``ops.mean(x, 1)``."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from matex.apoptosis import kinds
from matex.apoptosis.network import Network, Tag
from matex.apoptosis.rules.shapes import merged, unknown

__all__ = ["operation"]

Tags = list[Tag | None]


def operation(net: Network, call: Any, tags: Tags) -> Tags:
    """The tags after a function, where it treats each unit by itself."""
    name = type(call.operation).__name__
    if not any(tags):
        return [None] * len(call.outputs)
    if name == "Mean" and len(call.inputs) == 1:
        return _mean(net, call, tags)
    if name == "Transpose" and len(call.inputs) == 1:
        return _transpose(net, call, tags)
    if name in kinds.ELEMENTWISE_OPS and len(call.outputs) == 1 and not _holds_arrays(call):
        return [_elementwise(net, call, tags, name)]
    return unknown(net, call, tags)


def _elementwise(net: Network, call: Any, tags: Tags, name: str) -> Tag | None:
    tag = merged(net, call, tags)
    scales = name in kinds.LINEAR_OPS | kinds.SCALING_OPS and len(call.inputs) == len(
        [leaf for leaf in keras.tree.flatten(call.args) if leaf is not None]
    )
    if tag is not None and not scales:
        net.units.bend(tag.units)
    return tag


def _mean(net: Network, call: Any, tags: Tags) -> Tags:
    """A mean over other axes than that of the units, as global average pooling is."""
    (tag,), rank = tags, len(call.inputs[0].shape)
    given = call.operation.axis
    axes = range(rank) if given is None else [axis % rank for axis in given]
    if tag is None or tag.axis in axes or 0 in axes:
        return unknown(net, call, tags)
    if call.operation.keepdims:
        return [tag]
    return [tag._replace(axis=tag.axis - sum(axis < tag.axis for axis in axes))]


def _transpose(net: Network, call: Any, tags: Tags) -> Tags:
    (tag,), rank = tags, len(call.inputs[0].shape)
    given = call.operation.axes
    axes = range(rank)[::-1] if given is None else [axis % rank for axis in given]
    if tag is None or axes[0] != 0:
        return unknown(net, call, tags)
    return [tag._replace(axis=list(axes).index(tag.axis))]


def _holds_arrays(call: Any) -> bool:
    leaves = keras.tree.flatten([call.args, call.kwargs])
    return any(np.ndim(_value(leaf)) for leaf in leaves)


def _value(leaf: Any) -> Any:
    """A constant among the arguments; symbolic tensors count as scalars here."""
    return 0 if isinstance(leaf, keras.KerasTensor | str) else leaf
