"""Layers that normalise over the batch, over the units of a row, or over groups of them.

BatchNormalization treats each unit by itself. The others divide by statistics of several units, so
their output for kept units changes with every removal: they are recorded as ``net.norms``, for
trials to exclude removed units from these statistics (:mod:`matex.apoptosis.cut.masking`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from matex.apoptosis.graph.network import Network, Norm, Tag

__all__ = ["batch_norm", "group_norm", "layer_norm"]

Tags = list[Tag | None]


def batch_norm(net: Network, call: Any, tags: Tags) -> Tags:
    layer, (tag,) = call.operation, tags
    axis = layer.axis % len(call.outputs[0].shape) if isinstance(layer.axis, int) else -1
    if tag is not None and (axis != tag.axis or getattr(layer, "renorm", False)):
        net.leave(layer, tags, "it normalises over another axis")
        return [None]
    given = (layer.gamma, layer.beta, layer.moving_mean, layer.moving_variance)
    variables = [v for v in given if v is not None]
    if tag is None:
        for variable in variables:
            net.bind_fixed(variable, 0)
        return [None]
    bindings = [net.bind(v, 0, tag.units) for v in variables]
    if tag.source is not None and net.folded.setdefault(tag.source, layer) is layer:
        return [tag]
    net.extras += bindings
    net.units.mark_inhomogeneous(tag.units)
    return [tag._replace(source=None, linear=False)]


def layer_norm(net: Network, call: Any, tags: Tags) -> Tags:
    """LayerNormalization and RMSNormalization: gamma and beta over the axes that are normalized."""
    layer, (tag,) = call.operation, tags
    axes = [axis % len(call.outputs[0].shape) for axis in np.ravel(layer.axis).tolist()]
    if getattr(layer, "rms_scaling", False):
        net.leave(layer, tags, "it divides by a variance that it does not center by")
        return [None]
    return _normalized(net, layer, tag, axes)


def group_norm(net: Network, call: Any, tags: Tags) -> Tags:
    """GroupNormalization: unit r of all groups is removed at once, so groups stay equal."""
    layer, (tag,) = call.operation, tags
    rank = len(call.outputs[0].shape)
    channels = layer.axis % rank
    if tag is not None and tag.axis != channels:
        net.leave(layer, tags, "it normalizes over another axis")
        return [None]
    if tag is not None and layer.groups == len(tag.units):
        net.size(tag.units, lambda n: setattr(layer, "groups", n))
        return _normalized(net, layer, tag, [channels], alone=True)
    if tag is not None:
        rows = tag.units.reshape(layer.groups, -1)
        net.units.tie(np.broadcast_to(rows[0], rows.shape), rows)
    return _normalized(net, layer, tag, [channels])


def _normalized(
    net: Network, layer: Any, tag: Tag | None, axes: list[int], *, alone: bool = False
) -> Tags:
    """Tag after a layer whose weights run over *axes* of its input.

    With *alone* each unit has statistics of its own.
    """
    weights = [w for w in (getattr(layer, name, None) for name in _WEIGHTS) if _is_weight(w)]
    if tag is None or tag.axis not in axes:
        for weight in weights:
            for axis in range(len(axes)):
                net.bind_fixed(weight, axis)
    else:
        place = axes.index(tag.axis)
        net.extras += [net.bind(weight, place, tag.units) for weight in weights]
        if not alone:
            net.norm(Norm(layer, place, tag.units))
    if tag is None:
        return [None]
    net.units.mark_inhomogeneous(tag.units)
    return [tag._replace(source=None, linear=False)]


_WEIGHTS = ("gamma", "beta", "scale")


def _is_weight(value: Any) -> bool:
    """Whether ``scale`` is a weight (RMSNormalization), not an option (LayerNormalization)."""
    return value is not None and not isinstance(value, bool)
