"""Layers whose units are columns of a matrix: Dense and Embedding; and PReLU."""

from __future__ import annotations

from typing import Any

import numpy as np

from matex.apoptosis.graph import kinds
from matex.apoptosis.graph.network import (
    TIED_BY_ACTIVATION,
    UNKNOWN_ACTIVATION,
    WEIGHED_ACTIVATION,
    Network,
    Reading,
    Tag,
)

__all__ = [
    "NOT_SUMMED",
    "activated",
    "adaptation",
    "dense",
    "embedding",
    "layer_scale",
    "prelu",
    "reversible",
]

Tags = list[Tag | None]

NOT_SUMMED = "it does not sum over the units that it is given"


def dense(net: Network, call: Any, tags: Tags) -> Tags:
    layer, (tag,) = call.operation, tags
    (output,) = call.outputs
    axis = len(output.shape) - 1
    if adapted := adaptation(layer):
        net.leave(layer, tags, adapted)
        return [None]
    if tag is not None and tag.axis != axis:
        net.leave(layer, tags, NOT_SUMMED)
        return [None]
    positions = float(np.prod([n or 1 for n in output.shape[1:-1]]))
    net.work.append((layer.kernel, positions))
    if tag is None:
        net.bind_fixed(layer.kernel, 0)
    else:
        kernel = net.bind(layer.kernel, 0, tag.units)
        net.read(Reading(layer, -1, tag.units, kernel, layer.bias))
    units = net.units.new(layer.units)
    number = net.source(layer, (layer.kernel, 1), (layer.bias, 0), units=units)
    net.size(units, lambda n: setattr(layer, "units", n))
    return [activated(net, layer, Tag(axis, units, number, linear=True))]


def adaptation(layer: Any) -> str:
    """Reason for which the kernel or table of *layer* is no plain variable; "" if it is one."""
    if getattr(layer, "lora_enabled", False):
        return "it has a LoRA adapter"
    return "" if layer.quantization_mode is None else f"it is quantized ({layer.quantization_mode})"


def activated(net: Network, layer: Any, tag: Tag) -> Tag | None:
    """The tag after the layer's own activation."""
    return through(net, layer, layer.activation, tag)


def through(net: Network, layer: Any, activation: Any, tag: Tag) -> Tag | None:
    """The tag after *activation*."""
    if not kinds.is_elementwise(activation):
        net.keep(tag, layer, why_kept(activation))
        return None
    if not kinds.scales(activation):
        net.units.mark_inhomogeneous(tag.units)
    if kinds.is_linear(activation):
        return tag
    return tag._replace(source=None, linear=False)


def why_kept(activation: Any) -> str:
    """Reason for which the units before *activation*, which is not elementwise, are kept."""
    if kinds.ties(activation):
        return TIED_BY_ACTIVATION
    return WEIGHED_ACTIVATION if getattr(activation, "weights", ()) else UNKNOWN_ACTIVATION


def embedding(net: Network, call: Any, tags: Tags) -> Tags:
    layer = call.operation
    (output,) = call.outputs
    net.keep(tags[0], layer, "it is given indices")
    if adapted := adaptation(layer):
        net.leave(layer, tags, adapted)
        return [None]
    units = net.units.new(layer.output_dim)
    number = net.source(layer, (layer.embeddings, 1), units=units)
    net.size(units, lambda n: setattr(layer, "output_dim", n))
    return [Tag(len(output.shape) - 1, units, number, linear=True)]


def reversible(net: Network, call: Any, tags: Tags) -> Tags:
    """An embedding that is called on indices, and on units for scores of all words."""
    layer, (tag,) = call.operation, tags
    if not (call.kwargs.get("reverse") or call.args[1:] == (True,)):
        return embedding(net, call, tags)
    axis = len(call.inputs[0].shape) - 1
    if adapted := adaptation(layer):
        net.leave(layer, tags, adapted)
        return [None]
    if tag is not None and tag.axis != axis:
        net.leave(layer, tags, NOT_SUMMED)
        return [None]
    kernel, along = (layer.embeddings, 1) if layer.tie_weights else (layer.reverse_embeddings, 0)
    net.work.append((kernel, float(np.prod([n or 1 for n in call.inputs[0].shape[1:-1]]))))
    if tag is None:
        net.bind_fixed(kernel, along)
    else:
        bound = net.bind(kernel, along, tag.units)
        net.read(Reading(layer, -1, tag.units, bound, None, _unless_indices))
    return [None]


def _unless_indices(x: Any) -> Any:
    return x if np.issubdtype(np.asarray(x).dtype, np.inexact) else None


def prelu(net: Network, call: Any, tags: Tags) -> Tags:
    layer, (tag,) = call.operation, tags
    if tag is None:
        for axis in range(len(layer.alpha.shape)):
            net.bind_fixed(layer.alpha, axis)
        return [None]
    if int(layer.alpha.shape[tag.axis - 1]) != 1:
        net.extras.append(net.bind(layer.alpha, tag.axis - 1, tag.units))
        net.units.mark_inhomogeneous(tag.units)
    return [tag._replace(source=None, linear=False)]


def layer_scale(net: Network, call: Any, tags: Tags) -> Tags:
    """LayerScale of Keras's ConvNeXt: each unit has its own factor."""
    layer, (tag,) = call.operation, tags
    if tag is None or tag.axis != len(call.outputs[0].shape) - 1:
        net.leave(layer, tags, "its factors are along another axis")
        return [None]
    net.extras.append(net.bind(layer.gamma, 0, tag.units))
    net.size(tag.units, lambda n: setattr(layer, "projection_dim", n))
    net.units.mark_inhomogeneous(tag.units)
    return [tag._replace(source=None, linear=False)]
