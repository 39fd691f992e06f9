"""Products that sum over an axis, without weights as factors: matmul, einsum, attention.

Each operand has a letter for every axis, as in ``"bqx,bkx->bqk"``. Units along a letter of the
output are the same units there. Units that are summed over cannot be removed: no kernel reads them
that could take over their work.
"""

from __future__ import annotations

import re
import string
from collections.abc import Sequence
from typing import Any

import numpy as np

from matex import keras_hooks
from matex.apoptosis.graph.network import Network, Tag
from matex.apoptosis.graph.rules.shapes import unknown

__all__ = ["additive_attention", "attention", "dot", "dot_product_attention", "einsum", "matmul"]

Tags = list[Tag | None]

_EQUATION = re.compile(r"[a-zA-Z]+(,[a-zA-Z]+)*->[a-zA-Z]+")


def matmul(net: Network, call: Any, tags: Tags) -> Tags:
    operands = _operands(call, 2)
    ranks = [len(np.shape(x)) for x in operands]
    if len(operands) != 2 or min(ranks) < 2:
        return unknown(net, call, tags)
    rows, inner, columns = "x", "y", "z"
    shared = string.ascii_uppercase[: max(ranks) - 2]
    letters = [
        shared[len(shared) - (rank - 2) :] + last
        for rank, last in zip(ranks, (rows + inner, inner + columns), strict=True)
    ]
    return _product(net, call, tags, operands, letters, shared + rows + columns)


def einsum(net: Network, call: Any, tags: Tags) -> Tags:
    equation = call.operation.subscripts.replace(" ", "")
    if not _EQUATION.fullmatch(equation):
        return unknown(net, call, tags)
    given, _, made = equation.partition("->")
    letters = given.split(",")
    if any(len(set(some)) != len(some) for some in (*letters, made)):
        return unknown(net, call, tags)
    return _product(net, call, tags, _operands(call, len(letters)), letters, made)


def dot(net: Network, call: Any, tags: Tags) -> Tags:
    """The layer ``Dot``."""
    layer, ranks = call.operation, [len(x.shape) for x in call.inputs]
    given = layer.axes if isinstance(layer.axes, list | tuple) else (layer.axes, layer.axes)
    axes = [axis % rank for axis, rank in zip(given, ranks, strict=True)]
    if len(call.inputs) != 2 or 0 in axes:
        return unknown(net, call, tags)
    if layer.normalize or max(ranks) < 3:
        net.leave(
            layer, tags, "it divides by a norm" if layer.normalize else "it sums over the units"
        )
        return [None]
    pool = iter(string.ascii_letters[2:])
    letters = ["", ""]
    for number, (rank, axis) in enumerate(zip(ranks, axes, strict=True)):
        names = ["a", *(next(pool) for _ in range(rank - 1))]
        names[axis] = "b"
        letters[number] = "".join(names)
    made = "a" + "".join(some[1:].replace("b", "") for some in letters)
    return _product(net, call, tags, call.inputs, letters, made)


def attention(net: Network, call: Any, tags: Tags) -> Tags:
    """The layer ``Attention``: scores sum over the units of query and key, not over the values'."""
    query, value, *rest = call.args[0] if call.args else call.kwargs["inputs"]
    key = rest[0] if rest else value
    if len(query.shape) != 3 or len(value.shape) != 3:
        return unknown(net, call, tags)
    letters = ["bqx", "bkv", "bkx"]
    made = _product(net, call, tags, [query, value, key], letters, "bqv")
    return [*made, *([None] * (len(call.outputs) - 1))]


def additive_attention(net: Network, call: Any, tags: Tags) -> Tags:
    if call.operation.scale is not None:
        net.bind_fixed(call.operation.scale, 0)
    return attention(net, call, tags)


def dot_product_attention(net: Network, call: Any, tags: Tags) -> Tags:
    """The function of that name: heads are units, and so are the last axis of the values."""
    given = dict(zip(("query", "key", "value"), call.args, strict=False)) | call.kwargs
    operands = [given[name] for name in ("query", "key", "value")]
    if given["query"].shape[2] != given["key"].shape[2]:
        return unknown(net, call, tags)
    others = [x for x in call.inputs if not any(x is one for one in operands)]
    letters = ["bqhx", "bkhx", "bkhv", *(["bhqk"] * len(others))]
    return _product(net, call, tags, [*operands, *others], letters, "bqhv")


def _operands(call: Any, count: int) -> list[Any]:
    leaves = [leaf for leaf in keras_hooks.flatten(call.args) if leaf is not None]
    return leaves if len(leaves) == count else []


def _product(
    net: Network,
    call: Any,
    tags: Tags,
    operands: Sequence[Any],
    letters: Sequence[str],
    made: str,
) -> Tags:
    """Tag of the output of a product of *operands*, whose axes are named by *letters*."""
    if len(operands) != len(letters) or len(call.outputs) < 1:
        return unknown(net, call, tags)
    by_tensor = {id(t): tag for t, tag in zip(call.inputs, tags, strict=True)}
    along: dict[str, list[Tag | None]] = {}
    for operand, names in zip(operands, letters, strict=True):
        tag = by_tensor.get(id(operand))
        for axis, name in enumerate(names):
            if tag is not None and tag.axis == axis:
                along.setdefault(name, []).append(tag)
            elif np.shape(operand)[axis] != 1:
                along.setdefault(name, []).append(None)
    result: Tag | None = None
    for name, some in along.items():
        marked = [tag for tag in some if tag is not None]
        if not marked:
            continue
        first, *others = marked
        if name not in made or made.index(name) == 0:
            _keep(net, call, marked, "it sums over the units")
        elif len(marked) != len(some):
            _keep(net, call, marked, "it joins units with what must stay")
        elif result is not None:
            _keep(net, call, marked, "it has units along two axes")
        else:
            for other in others:
                net.units.tie(first.units, other.units)
            net.units.mark_inhomogeneous(first.units)
            result = Tag(made.index(name), first.units)
    return [result]


def _keep(net: Network, call: Any, tags: Sequence[Tag], why: str) -> None:
    for tag in tags:
        net.keep(tag, call.operation, why)
