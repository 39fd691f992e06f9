"""Functions that move values and compute nothing: reshape, transpose, split, depth-to-space.

Where units are afterwards is found out by applying the function to their numbers.
"""

from __future__ import annotations

import math
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from matex import keras_hooks
from matex.apoptosis.graph.network import Network, Tag
from matex.apoptosis.graph.rules.shapes import placed, unknown

__all__ = ["MOVES", "gated", "moved", "parts_taken", "reshaped", "split", "unstacked"]

Tags = list[Tag | None]

MOVES = {
    "Concatenate", "DepthToSpace", "Dstack", "ExpandDims", "Flip", "Fliplr", "Hstack", "Moveaxis",
    "Repeat", "SpaceToDepth", "Squeeze", "Stack", "Swapaxes", "Tile", "Transpose",
}  # fmt: skip

# A size that no graph fixes, as that of time may be.
_ANY_SIZE = 16

_REFUSALS = (TypeError, ValueError, IndexError, AttributeError, tf.errors.OpError)


def moved(net: Network, call: Any, tags: Tags) -> Tags:
    """Tags after the function of *call*, whose arguments contain no width."""
    found = _labels_after(net, call, tags, batch=1)
    if found is None:
        return unknown(net, call, tags)
    return [_settled(net, call, tags, labels, x) for labels, x in zip(*found, strict=True)]


def reshaped(net: Network, call: Any, tags: Tags) -> Tags:
    (output,), (given,) = call.outputs, call.inputs
    if None in given.shape[1:] or None in output.shape[1:]:
        return unknown(net, call, tags)
    # As many rows as the first axis of the new shape may be cut from.
    whole, row = math.prod(output.shape[1:]), math.prod(given.shape[1:])
    found = _labels_after(net, call, tags, batch=whole // math.gcd(whole, row))
    if found is None:
        return unknown(net, call, tags)
    tag = _settled(net, call, tags, found[0][0], output)
    if tag is not None and call.operation.newshape[tag.axis] != -1:
        axis = tag.axis
        net.size(tag.units, lambda n: _set_entry(call.operation, "newshape", axis, n))
    return [tag]


def split(net: Network, call: Any, tags: Tags) -> Tags:
    """Split into sections of equal size along the units: unit r of all of them is removed at once.

    Given split positions move with the remaining units.
    """
    (tag,), operation = tags, call.operation
    made = moved(net, call, tags)
    places = operation.indices_or_sections
    if tag is None or operation.axis % len(call.inputs[0].shape) != tag.axis or None in made:
        return made
    if isinstance(places, int):
        first, *others = [one.units for one in made if one is not None]
        if any(len(units) != len(first) for units in others):
            return unknown(net, call, tags)
        for units in others:
            net.units.tie(first, units)
        return made
    width = len(tag.units)
    for number, place in enumerate(places):
        at = place % width if place < 0 else min(place, width)
        before = tag.units[:at]
        net.size(
            before,
            lambda n, i=number: _set_entry(operation, "indices_or_sections", i, n),  # type: ignore[misc]
        )
    return made


def unstacked(net: Network, call: Any, tags: Tags) -> Tags:
    """Slices along another axis than the units'."""
    (tag,) = tags
    if tag is None or call.operation.axis % len(call.inputs[0].shape) == tag.axis:
        return unknown(net, call, tags)
    return moved(net, call, tags)


def gated(net: Network, call: Any, tags: Tags) -> Tags:
    """``glu``: one half is multiplied by the sigmoid of the other half."""
    (tag,) = tags
    if tag is None:
        return unknown(net, call, tags)
    net.units.mark_inhomogeneous(tag.units)
    if call.operation.axis % len(call.inputs[0].shape) != tag.axis:
        return [tag._replace(source=None)]
    halves = tag.units.reshape(2, -1)
    net.units.tie(halves[0], halves[1])
    return [Tag(tag.axis, halves[0])]


def parts_taken(net: Network, call: Any, tags: Tags) -> Tags:
    """``x[...]``: indices or slices; of the units a slice, whose ends follow removals."""
    tag, rank = tags[0], len(call.inputs[0].shape)
    key = call.args[1] if len(call.args) > 1 else call.kwargs["key"]
    items = _items_by_axis(key, rank)
    if tag is None or items is None or items[0] != slice(None):
        return unknown(net, call, tags)
    item, width = items[tag.axis], len(tag.units)
    if not isinstance(item, slice) or item.step not in (None, 1):
        return unknown(net, call, tags)
    made = moved(net, call, tags)
    if item == slice(None) or made[0] is None:
        return made
    plain: list[Any] = list(items)
    ends = item.indices(width)[:2]
    plain[tag.axis] = slice(*ends)
    for place, end in enumerate(ends):
        net.size(tag.units[:end], lambda n, p=place: _set_end(call, plain, tag.axis, p, n))  # type: ignore[misc]
    return made


def _items_by_axis(key: Any, rank: int) -> list[Any] | None:
    """Items of a key, one per axis; None if it adds axes or contains arrays."""
    given = list(key) if isinstance(key, list | tuple) else [key]
    if any(not isinstance(item, int | slice) and item is not Ellipsis for item in given):
        return None
    if Ellipsis in given:
        at = given.index(Ellipsis)
        given[at : at + 1] = [slice(None)] * (rank - len(given) + 1)
    return given + [slice(None)] * (rank - len(given))


def _set_end(call: Any, items: list[Any], axis: int, place: int, size: int) -> None:
    """Let a slice along *axis* begin, for *place* 0, or end, for 1, at *size*."""
    ends = [items[axis].start, items[axis].stop]
    ends[place] = size
    items[axis] = slice(*ends)
    keras_hooks.set_second_argument(call, tuple(items))


def _set_entry(operation: Any, name: str, entry: int, size: int) -> None:
    values = list(getattr(operation, name))
    values[entry] = size
    keras_hooks.set_option(operation, name, tuple(values))


def _labels_after(
    net: Network, call: Any, tags: Tags, *, batch: int
) -> tuple[list[np.ndarray], list[Any]] | None:
    """Unit numbers at each position of the outputs; None if unknown."""
    if any(tag is not None and len(np.unique(tag.units)) < 2 for tag in tags):
        return None
    fixed = int(net.units.new_fixed(1)[0])
    labels = {
        id(x): keras.ops.convert_to_tensor(_labels(net, x, tag, fixed, batch), "float64")
        for x, tag in zip(call.inputs, tags, strict=True)
    }
    args, kwargs = keras.tree.map_structure(
        lambda leaf: labels.get(id(leaf), leaf), (list(call.args), call.kwargs)
    )
    try:
        made = call.operation.call(*args, **kwargs)
    except _REFUSALS:
        return None
    arrays = [np.asarray(one).astype(np.int64) for one in keras.tree.flatten(made)]
    return arrays, call.outputs


def _labels(net: Network, x: Any, tag: Tag | None, fixed: int, batch: int) -> np.ndarray:
    sizes = [n or (_ANY_SIZE if axis else batch) for axis, n in enumerate(x.shape)]
    if tag is None:
        return np.full(sizes, float(fixed))
    shape = [1] * len(sizes)
    shape[tag.axis] = len(tag.units)
    return np.broadcast_to(net.units.roots(tag.units).reshape(shape).astype(float), sizes)


def _settled(net: Network, call: Any, tags: Tags, labels: np.ndarray, output: Any) -> Tag | None:
    """Tag of *output*, whose positions hold the units *labels*."""
    sizes = tuple(output.shape)
    fits = [axis for axis in range(1, labels.ndim) if sizes[axis] in (None, labels.shape[axis])]
    if sizes[0] is not None or not fits:
        for tag in tags:
            net.keep(tag, call.operation, "it moves units to where samples are")
        return None
    return placed(net, labels, fits)
