"""Attention layers, whose units are heads.

A head is one row of the query, key and value projections, and of the readers of their result.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from matex.apoptosis.graph.network import Network, Reading, Tag
from matex.apoptosis.graph.rules.dense import NOT_SUMMED, adaptation

__all__ = ["grouped_query", "multi_head"]

Tags = list[Tag | None]

_NAMES = ("query", "value", "key")


def multi_head(net: Network, call: Any, tags: Tags) -> Tags:
    layer = call.operation
    if getattr(layer, "_use_gate", False) or len(call.outputs[0].shape) != 3:
        net.leave(layer, tags, "it has a gate, or attends over several axes")
        return [None] * len(call.outputs)
    inputs = _inputs(call, tags)
    if why := _obstacle(inputs, [getattr(layer, f"{name}_dense") for name in (*_NAMES, "output")]):
        net.leave(layer, tags, why)
        return [None] * len(call.outputs)
    heads = net.units.new(layer.num_heads)
    net.units.mark_inhomogeneous(heads)
    parts: list[tuple[Any, int]] = []
    for name, tag in inputs.items():
        dense = getattr(layer, f"{name}_dense")
        net.work.append((dense.kernel, float(call.outputs[0].shape[1] or 1)))
        parts += [(dense.kernel, 1), (dense.bias, 0)]
        if tag is not None:
            kernel = net.bind(dense.kernel, 0, tag.units)
            net.read(Reading(dense, 2, tag.units, kernel, dense.bias))
        else:
            net.bind_fixed(dense.kernel, 0)
        net.size(heads, functools.partial(_reshape, dense))
    net.source(layer, *parts, units=heads, least=1)
    net.size(heads, lambda n: setattr(layer, "_num_heads", n))
    out = layer.output_dense
    net.work.append((out.kernel, float(call.outputs[0].shape[1] or 1)))
    kernel = net.bind(out.kernel, 0, heads)
    net.read(Reading(out, 2, heads, kernel))
    units = net.units.new(int(out.kernel.shape[2]))
    number = net.source(out, (out.kernel, 2), (out.bias, 0), units=units)
    net.size(units, lambda n: _set_output(layer, out, n))
    scores: Tags = [Tag(1, heads) for _ in call.outputs[1:]]
    return [Tag(2, units, number, linear=True), *scores]


def _inputs(call: Any, tags: Tags) -> dict[str, Tag | None]:
    """Tags of query, value and key; without a key the value's."""
    by_tensor = {id(t): tag for t, tag in zip(call.inputs, tags, strict=True)}
    given = dict(zip(("query", "value", "key"), call.args, strict=False)) | call.kwargs
    if given.get("key") is None:
        given["key"] = given["value"]
    return {name: by_tensor[id(given[name])] for name in _NAMES}


def _obstacle(inputs: dict[str, Tag | None], projections: list[Any]) -> str:
    """Reason for which no head can be removed; "" if one can."""
    if adapted := next(filter(None, map(adaptation, projections)), ""):
        return f"one of its projections is no plain array: {adapted}"
    if any(tag is not None and tag.axis != 2 for tag in inputs.values()):
        return NOT_SUMMED
    return ""


def _reshape(dense: Any, heads: int) -> None:
    """The (time, heads, size) that a projection of attention gives."""
    shape = tuple(dense.partial_output_shape)
    dense.partial_output_shape = (*shape[:-2], heads, shape[-1])


def _set_output(layer: Any, out: Any, units: int) -> None:
    layer._output_shape = (units,)
    out.partial_output_shape = (*tuple(out.partial_output_shape)[:-1], units)


def grouped_query(net: Network, call: Any, tags: Tags) -> Tags:
    """A head of keys and values is removed with the query heads that share it."""
    layer = call.operation
    if layer.use_gate or len(call.inputs) > len(_NAMES):
        net.leave(layer, tags, "it has a gate, or is given more than query, value and key")
        return [None] * len(call.outputs)
    inputs = _inputs(call, tags)
    if why := _obstacle(inputs, [getattr(layer, f"_{name}_dense") for name in (*_NAMES, "output")]):
        net.leave(layer, tags, why)
        return [None] * len(call.outputs)
    heads = net.units.new(layer.num_key_value_heads)
    asking = np.repeat(heads, layer.num_repeats)
    net.units.mark_inhomogeneous(heads)
    steps = float(call.outputs[0].shape[1] or 1)
    parts: list[tuple[Any, int]] = []
    for name, tag in inputs.items():
        dense = getattr(layer, f"_{name}_dense")
        net.work.append((dense.kernel, steps))
        if name == "query":
            net.extras.append(net.bind(dense.kernel, 1, asking))
            if dense.bias is not None:
                net.extras.append(net.bind(dense.bias, 0, asking))
        else:
            parts += [(dense.kernel, 1), (dense.bias, 0)]
        if tag is not None:
            kernel = net.bind(dense.kernel, 0, tag.units)
            net.read(Reading(dense, 2, tag.units, kernel, dense.bias))
        else:
            net.bind_fixed(dense.kernel, 0)
        net.size(asking if name == "query" else heads, functools.partial(_reshape, dense))
    net.source(layer, *parts, units=heads, least=1)
    net.size(heads, lambda n: setattr(layer, "num_key_value_heads", n))
    net.size(asking, lambda n: setattr(layer, "num_query_heads", n))
    out = layer._output_dense
    net.work.append((out.kernel, steps))
    kernel = net.bind(out.kernel, 0, asking)
    net.read(Reading(out, 2, asking, kernel))
    query = inputs["query"]
    if query is None:
        net.bind_fixed(out.kernel, 2)
        if out.bias is not None:
            net.bind_fixed(out.bias, 0)
        return [None] * len(call.outputs)
    # It is built with as many outputs as the query has units.
    number = net.source(out, (out.kernel, 2), (out.bias, 0), units=query.units)
    net.size(query.units, lambda n: _set_features(layer, out, n))
    return [Tag(2, query.units, number), *([None] * (len(call.outputs) - 1))]


def _set_features(layer: Any, out: Any, units: int) -> None:
    layer.feature_dim = units
    out.partial_output_shape = (*tuple(out.partial_output_shape)[:-1], units)
