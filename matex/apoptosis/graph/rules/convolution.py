"""Convolution layers, whose units are filters.

A grouped convolution has the same number of channels in each group before and after, so channel r
of all groups is one unit, and so is filter r. A depthwise one mixes no channels: its output channel
is the same unit. Filters of a separable convolution read the channels after its depthwise half.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from matex.apoptosis.graph.network import Network, Reading, Tag
from matex.apoptosis.graph.rules.dense import NOT_SUMMED, activated

__all__ = ["convolution", "depthwise", "separable", "transposed"]

Tags = list[Tag | None]


def convolution(net: Network, call: Any, tags: Tags) -> Tags:
    layer, (tag,) = call.operation, tags
    if not _is_plain(net, call, tag):
        return [None]
    (output,) = call.outputs
    groups, rank = layer.groups, layer.rank
    axis = _axis(layer, output)
    net.work.append((layer.kernel, _positions(output, axis)))
    if tag is not None:
        rows = tag.units.reshape(groups, -1)
        net.units.tie(np.broadcast_to(rows[0], rows.shape), rows)
        kernel = net.bind(layer.kernel, rank, rows[0])
        bias = layer.bias if _sees_no_border(layer) else None
        net.read(Reading(layer, tag.axis, tag.units, kernel, bias))
    else:
        net.bind_fixed(layer.kernel, rank)
    units = net.units.new(layer.filters)
    columns = units.reshape(groups, -1)
    net.units.tie(np.broadcast_to(columns[0], columns.shape), columns)
    number = net.source(layer, (layer.kernel, rank + 1), (layer.bias, 0), units=units)
    net.size(units, lambda n: setattr(layer, "filters", n))
    return [activated(net, layer, Tag(axis, units, number, linear=True))]


def transposed(net: Network, call: Any, tags: Tags) -> Tags:
    layer, (tag,) = call.operation, tags
    if not _is_plain(net, call, tag):
        return [None]
    (output,) = call.outputs
    rank, axis = layer.rank, _axis(layer, output)
    net.work.append((layer.kernel, _positions(call.inputs[0], axis)))
    if tag is not None:
        kernel = net.bind(layer.kernel, rank + 1, tag.units)
        net.read(Reading(layer, tag.axis, tag.units, kernel))
    else:
        net.bind_fixed(layer.kernel, rank + 1)
    units = net.units.new(layer.filters)
    number = net.source(layer, (layer.kernel, rank), (layer.bias, 0), units=units)
    net.size(units, lambda n: setattr(layer, "filters", n))
    return [activated(net, layer, Tag(axis, units, number, linear=True))]


def depthwise(net: Network, call: Any, tags: Tags) -> Tags:
    layer, (tag,) = call.operation, tags
    if not _is_plain(net, call, tag):
        return [None]
    (output,) = call.outputs
    axis = _axis(layer, output)
    net.work.append((layer.kernel, _positions(output, axis)))
    if tag is None:
        net.bind_fixed(layer.kernel, layer.rank)
        if layer.bias is not None:
            net.bind_fixed(layer.bias, 0)
        return [None]
    units = np.repeat(tag.units, layer.depth_multiplier)
    net.extras.append(net.bind(layer.kernel, layer.rank, tag.units))
    if layer.bias is not None:
        net.extras.append(net.bind(layer.bias, 0, units))
    net.units.mark_inhomogeneous(units)
    return [activated(net, layer, Tag(axis, units))]


def separable(net: Network, call: Any, tags: Tags) -> Tags:
    layer, (tag,) = call.operation, tags
    if not _is_plain(net, call, tag):
        return [None]
    (output,) = call.outputs
    rank, axis = layer.rank, _axis(layer, output)
    positions = _positions(output, axis)
    net.work += [(layer.depthwise_kernel, positions), (layer.pointwise_kernel, positions)]
    if tag is not None:
        after = np.repeat(tag.units, layer.depth_multiplier)
        net.extras.append(net.bind(layer.depthwise_kernel, rank, tag.units))
        net.units.mark_inhomogeneous(after)
        kernel = net.bind(layer.pointwise_kernel, rank, after)
        net.read(Reading(layer, axis, after, kernel, layer.bias, lambda x: _depthwise(layer, x)))
    else:
        net.bind_fixed(layer.depthwise_kernel, rank)
        net.bind_fixed(layer.pointwise_kernel, rank)
    units = net.units.new(layer.filters)
    number = net.source(layer, (layer.pointwise_kernel, rank + 1), (layer.bias, 0), units=units)
    net.size(units, lambda n: setattr(layer, "filters", n))
    return [activated(net, layer, Tag(axis, units, number, linear=True))]


def _depthwise(layer: Any, x: Any) -> Any:
    return keras.ops.depthwise_conv(
        x,
        layer.depthwise_kernel,
        strides=layer.strides,
        padding=layer.padding,
        dilation_rate=layer.dilation_rate,
        data_format=layer.data_format,
    )


def _axis(layer: Any, output: Any) -> int:
    return 1 if layer.data_format == "channels_first" else len(output.shape) - 1


def _is_plain(net: Network, call: Any, tag: Tag | None) -> bool:
    layer = call.operation
    if getattr(layer, "lora_enabled", False):
        net.leave(layer, [tag], "its kernel is more than one convolution")
        return False
    if tag is not None and tag.axis != _axis(layer, call.outputs[0]):
        net.leave(layer, [tag], NOT_SUMMED)
        return False
    return True


def _sees_no_border(layer: Any) -> bool:
    """Whether a constant input gives a constant output: no padding with zeros."""
    return layer.padding == "valid" or max(layer.kernel_size) == 1


def _positions(tensor: Any, axis: int) -> float:
    return float(np.prod([n or 1 for i, n in enumerate(tensor.shape) if i not in (0, axis)]))
