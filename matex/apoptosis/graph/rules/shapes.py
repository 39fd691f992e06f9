"""Layers without weights: they pass units on, join them, or move them to another axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from matex.apoptosis.graph.network import TIED_BY_SUM, Network, Tag
from matex.apoptosis.graph.rules.dense import through

__all__ = [
    "activation",
    "average",
    "concatenate",
    "flatten",
    "global_average",
    "global_maximum",
    "maximum",
    "merge_linear",
    "merge_product",
    "merged",
    "pass_on",
    "permute",
    "placed",
    "repeat_vector",
    "reshape",
    "softmax",
    "spatial",
    "unknown",
]

Tags = list[Tag | None]


def unknown(net: Network, call: Any, tags: Tags) -> Tags:
    """A layer without a rule: its input and output units are kept."""
    net.leave(call.operation, tags, "no rule says what of it could be removed")
    return [None] * len(call.outputs)


def pass_on(net: Network, call: Any, tags: Tags) -> Tags:
    """Dropout and similar; layers with a number per unit that is no weight keep their units."""
    layer, (tag,) = call.operation, tags
    if tag is not None and _holds_numbers(layer, tag.axis, len(call.outputs[0].shape)):
        net.keep(tag, layer, "it holds a number for each unit")
        return [None]
    return [tag]


def _holds_numbers(layer: Any, axis: int, rank: int) -> bool:
    """Whether an option of *layer* has an entry per position along *axis* of *rank* axes."""
    noise = getattr(layer, "noise_shape", None)
    if noise is not None and noise[axis] not in (None, 1):
        return True
    from_end = axis - rank  # as arrays are broadcast
    shapes = [np.shape(getattr(layer, name, 0.0)) for name in ("scale", "offset")]
    return any(len(shape) >= -from_end and shape[from_end] != 1 for shape in shapes)


def activation(net: Network, call: Any, tags: Tags) -> Tags:
    layer, (tag,) = call.operation, tags
    if tag is None:
        return [None]
    return [through(net, layer, layer, tag)]


def softmax(net: Network, call: Any, tags: Tags) -> Tags:
    """Softmax and UnitNormalization, which divide by a sum along an axis, or several."""
    tag, *others = tags
    axes = [axis % len(call.inputs[0].shape) for axis in np.ravel(call.operation.axis).tolist()]
    for other in others:
        net.keep(other, call.operation, "it is given a mask")
    if tag is None or tag.axis in axes:
        net.keep(tag, call.operation, TIED_BY_SUM)
        return [None]
    net.units.mark_inhomogeneous(tag.units)
    return [tag._replace(source=None)]


def spatial(net: Network, call: Any, tag: Tag | None) -> Tag | None:
    """*tag* if it is on the channels of a layer that works on the other axes."""
    if tag is None:
        return None
    first = getattr(call.operation, "data_format", None) == "channels_first"
    if tag.axis != (1 if first else len(call.inputs[0].shape) - 1):
        net.keep(tag, call.operation, "it works along the axis of the units")
        return None
    return tag


def average(net: Network, call: Any, tags: Tags) -> Tags:
    """Average pooling, padding, cropping, up-sampling: linear in each channel by itself."""
    return [spatial(net, call, tags[0])]


def maximum(net: Network, call: Any, tags: Tags) -> Tags:
    tag = spatial(net, call, tags[0])
    return [tag and tag._replace(source=None, linear=False)]


def global_average(net: Network, call: Any, tags: Tags) -> Tags:
    tag = spatial(net, call, tags[0])
    if tag is None or call.operation.keepdims:
        return [tag]
    return [tag._replace(axis=1)]


def global_maximum(net: Network, call: Any, tags: Tags) -> Tags:
    (tag,) = global_average(net, call, tags)
    return [tag and tag._replace(source=None, linear=False)]


def repeat_vector(net: Network, call: Any, tags: Tags) -> Tags:
    return [tags[0] and tags[0]._replace(axis=2)]


def permute(net: Network, call: Any, tags: Tags) -> Tags:
    tag = tags[0]
    return [tag and tag._replace(axis=1 + list(call.operation.dims).index(tag.axis))]


def merge_linear(net: Network, call: Any, tags: Tags) -> Tags:
    return [merged(net, call, tags)]


def merge_product(net: Network, call: Any, tags: Tags) -> Tags:
    tag = merged(net, call, tags)
    if tag is not None:
        net.units.mark_inhomogeneous(tag.units)
    return [tag]


def merged(net: Network, call: Any, tags: Tags) -> Tag | None:
    """Unit by unit, aligned at the last axis; a single channel is broadcast to all."""
    rank = len(call.outputs[0].shape)
    tags = [
        _unless_one_for_all(net, call, x, tag) for x, tag in zip(call.inputs, tags, strict=True)
    ]
    marked = [
        (tag, tag.axis - len(x.shape)) for x, tag in zip(call.inputs, tags, strict=True) if tag
    ]
    if not marked:
        return None
    first, back = marked[0]
    width = len(first.units)
    fits = all(b == back and len(tag.units) == width for tag, b in marked)
    for x, tag in zip(call.inputs, tags, strict=True):
        size = x.shape[back] if len(x.shape) >= -back else 1
        fits = fits and (tag is not None or size == 1)
    if not fits or call.outputs[0].shape[back] != width:
        for tag, _ in marked:
            net.keep(tag, call.operation, "it joins units with what must stay")
        return None
    for tag, _ in marked[1:]:
        net.units.tie(first.units, tag.units)
    return Tag(rank + back, first.units, None)


def _unless_one_for_all(net: Network, call: Any, x: Any, tag: Tag | None) -> Tag | None:
    """*tag*, or None if it is of one kept unit that is broadcast, such as a gate."""
    if tag is None or len(tag.units) != 1 or call.outputs[0].shape[tag.axis - len(x.shape)] == 1:
        return tag
    net.keep(tag)
    return None


def concatenate(net: Network, call: Any, tags: Tags) -> Tags:
    layer = call.operation
    rank = len(call.outputs[0].shape)
    axis = layer.axis % rank
    if not any(tags):
        return [None]
    if any(tag is not None and tag.axis != axis for tag in tags):
        return merge_linear(net, call, tags) if _same_widths(call, tags) else _kept(net, call, tags)
    pieces = [
        net.units.new_fixed(int(x.shape[axis])) if tag is None else tag.units
        for x, tag in zip(call.inputs, tags, strict=True)
    ]
    return [Tag(axis, np.concatenate(pieces))]


def _same_widths(call: Any, tags: Tags) -> bool:
    return all(tag is not None for tag in tags) and len({tag.axis for tag in tags if tag}) == 1


def _kept(net: Network, call: Any, tags: Tags) -> Tags:
    for tag in tags:
        net.keep(tag, call.operation, "it joins along another axis than the units'")
    return [None]


def flatten(net: Network, call: Any, tags: Tags) -> Tags:
    return [_reshaped(net, call, tags[0])]


def reshape(net: Network, call: Any, tags: Tags) -> Tags:
    layer = call.operation
    tag = _reshaped(net, call, tags[0])
    if tag is not None:
        axis = tag.axis - 1
        net.size(tag.units, lambda n: _set_target(layer, axis, n))
    return [tag]


def _set_target(layer: Any, axis: int, size: int) -> None:
    target = list(layer.target_shape)
    if target[axis] != -1:
        target[axis] = size
    layer.target_shape = tuple(target)


def _reshaped(net: Network, call: Any, tag: Tag | None) -> Tag | None:
    """Tag with the axis of the units in a reshaped tensor; units are tied to fit."""
    if tag is None:
        return None
    before, after = call.inputs[0].shape[1:], call.outputs[0].shape[1:]
    if None in before or None in after:
        net.keep(tag, call.operation, "it reshapes what has no fixed size")
        return None
    if getattr(call.operation, "data_format", None) == "channels_first" and len(before) > 1:
        net.keep(tag, call.operation, "it moves channels before it flattens")
        return None
    shape = [1] * len(before)
    shape[tag.axis - 1] = len(tag.units)
    labels = np.broadcast_to(net.units.roots(tag.units).reshape(shape), before).reshape(1, *after)
    return placed(net, labels, range(1, labels.ndim))


def placed(net: Network, labels: np.ndarray, axes: Sequence[int]) -> Tag:
    """Tag with that axis of *axes* along which the units *labels* run.

    Where several units share each place along every axis, they are tied along one.
    """
    rows = {axis: np.moveaxis(labels, axis, 0).reshape(labels.shape[axis], -1) for axis in axes}
    plain = [axis for axis in reversed(axes) if (rows[axis] == rows[axis][:, :1]).all()]
    if plain:
        return Tag(plain[0], rows[plain[0]][:, 0].copy())
    axis = net.choose([axis for axis in axes if _stay_apart(rows[axis])] or list(axes))
    net.units.tie(np.broadcast_to(rows[axis][:, :1], rows[axis].shape), rows[axis])
    return Tag(axis, rows[axis][:, 0].copy())


def _stay_apart(rows: np.ndarray) -> bool:
    """Whether tying the units of each row leaves more than one unit in all."""
    reached = set(rows[0].tolist())
    left = [set(np.unique(row).tolist()) for row in rows[1:]]
    while left:
        apart = [row for row in left if not row & reached]
        if len(apart) == len(left):
            return True
        reached.update(*(row for row in left if row & reached))
        left = apart
    return False
