"""Traversal of a model's graph, nested models included, to find its groups of units."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Collection
from typing import Any, NamedTuple

import keras
import numpy as np

from matex import keras_hooks
from matex.apoptosis.graph.network import OF_OUTPUTS, Network, Reading, Tag
from matex.apoptosis.graph.rules import rule_for
from matex.errors import InputError, Unsupported

__all__ = ["Group", "groups_of", "trace", "traces"]


def trace(model: Any, *, exclude: Collection[str] = ()) -> Network:
    """Traverse the built *model*, without changing it; local.

    Args:
        exclude: names of layers whose units are kept.

    Raises:
        InputError: a name to exclude is of no layer.
        Unsupported: there is no graph to follow, or a fixed batch size.
    """
    _refuse_states(model)
    names = sorted({layer.name for layer in keras_hooks.flat_layers(model)}) if exclude else []
    for name in exclude:
        if name not in names:
            near = difflib.get_close_matches(name, names) or names[:10]
            raise InputError(
                f"exclude must name layers of the model, such as {', '.join(near)}. "
                f"Received: {name!r}"
            )
    # Without exclusions: names alone do not change the meaning of a unit.
    net = max(traces(model), key=_living_sources)
    for source in net.sources:
        if source.layer.name in exclude:
            net.units.fix(source.units)
            net.left_alone[source.layer.name] = f"{type(source.layer).__name__}: excluded"
    return net


def _refuse_states(model: Any) -> None:
    """Raise Unsupported if a layer of *model* keeps a state per row of a batch."""
    for layer in keras_hooks.flat_layers(model):
        if getattr(layer, "stateful", False):
            raise Unsupported(
                "a model is pruned by what it computes on rows of any number. Received: "
                f"{layer.name}, which is stateful, so it takes batches of one size alone and "
                "each would change its state"
            )


def traces(model: Any) -> list[Network]:
    """Networks of *model* for different choices of the axes of units; local.

    Raises:
        Unsupported: there is no graph to follow.
    """
    functional = keras_hooks.functional_of(model)
    net = _traced(functional, outer=False)
    return [net, _traced(functional, outer=True)] if net.choices else [net]


def _living_sources(net: Network) -> int:
    """Number of layers with a unit that may be removed."""
    fixed = net.units.fixed_roots()
    return sum(bool(set(net.units.roots(s.units).tolist()) - fixed) for s in net.sources)


def _traced(functional: Any, *, outer: bool) -> Network:
    net = Network(outer=outer)
    for output in _follow(net, functional, [None] * len(functional.inputs)):
        net.keep(output)
    # The outputs of a model are kept whatever their activation, which is no news.
    for tensor in functional.outputs:
        name = tensor._keras_history.operation.name
        if net.left_alone.get(name, "").endswith(OF_OUTPUTS):
            del net.left_alone[name]
    return net


def _follow(net: Network, functional: Any, inputs: list[Tag | None]) -> list[Tag | None]:
    """Tags of the outputs of a graph, for the tags of its inputs."""
    tags: dict[int, Tag | None] = {}
    for tensor, tag in zip(functional.inputs, inputs, strict=True):
        net.shape(tensor, tag)
        tags[id(tensor)] = tag
        if tag is not None:
            layer = tensor._keras_history.operation
            net.size(tag.units, functools.partial(_resize, layer, tensor, tag.axis))
    for call in map(_without_masks, keras_hooks.calls_in(functional)):
        given = [tags[id(tensor)] for tensor in call.inputs]
        made = _outputs(net, call, given)
        for tensor, tag in zip(call.outputs, made, strict=True):
            net.shape(tensor, tag)
            tags[id(tensor)] = tag
        if any(given):
            net.calls.append((call, given))
    return [tags[id(tensor)] for tensor in functional.outputs]


def _without_masks(call: keras_hooks.GraphCall) -> keras_hooks.GraphCall:
    """*call* without the masks that Keras hands on from layer to layer, in which no units are."""
    masks = {name for name in call.kwargs if name == "mask" or name.endswith("_mask")}
    if not masks or keras_hooks.is_operation(call.operation):
        return call
    kwargs = {name: value for name, value in call.kwargs.items() if name not in masks}
    left = {id(tensor) for tensor in keras.tree.flatten((call.args, kwargs))}
    inputs = [tensor for tensor in call.inputs if id(tensor) in left]
    return call._replace(kwargs=kwargs, inputs=inputs)


def _resize(layer: Any, tensor: Any, axis: int, size: int) -> None:
    shape = list(tensor.shape)
    shape[axis] = size
    keras_hooks.set_batch_shape(layer, tuple(shape))


def _outputs(net: Network, call: Any, tags: list[Tag | None]) -> list[Tag | None]:
    if isinstance(call.operation, keras.Model):
        try:
            inner = keras_hooks.functional_of(call.operation)
        except Unsupported:
            return rule_for(None)(net, call, tags)
        return _follow(net, inner, tags)
    if type(call.operation) is keras.layers.TimeDistributed:
        return _at_each_step(net, call, tags)
    return rule_for(call.operation)(net, call, tags)


def _at_each_step(net: Network, call: Any, tags: list[Tag | None]) -> list[Tag | None]:
    """Tags after ``TimeDistributed``: those of its layer, which has no time axis."""
    wrapper, (tag,), (inputs,) = call.operation, tags, call.inputs
    steps = inputs.shape[1]
    if steps is None or (tag is not None and tag.axis == 1):
        why = (
            "its steps are units"
            if tag is not None and tag.axis == 1
            else "the number of its steps is not fixed"
        )
        net.leave(wrapper, tags, why)
        return [None] * len(call.outputs)
    ends = [
        [keras.KerasTensor((x.shape[0], *x.shape[2:]), x.dtype) for x in some]
        for some in (call.inputs, call.outputs)
    ]
    inner = keras_hooks.GraphCall(wrapper.layer, tuple(ends[0]), {}, *ends)
    given = [tag and tag._replace(axis=tag.axis - 1)]
    counted = len(net.work)
    made = _outputs(net, inner, given)
    net.work[counted:] = [(variable, times * steps) for variable, times in net.work[counted:]]
    for tensor, one in zip([*ends[0], *ends[1]], [*given, *made], strict=True):
        net.shape(tensor, one)
    if any(given):
        net.calls.append((inner, given))
    return [one and one._replace(axis=one.axis + 1) for one in made]


class Group(NamedTuple):
    """Units that can be removed one by one, from the same layers.

    ``members`` are roots of units, ascending; a position in it is a unit of the group.
    ``parts``: of those of each source that many must stay.
    """

    name: str
    members: np.ndarray
    parts: tuple[tuple[np.ndarray, int], ...]
    scales: bool
    sources: tuple[int, ...]
    readings: tuple[Reading, ...]

    @property
    def width(self) -> int:
        return len(self.members)


def groups_of(net: Network) -> list[Group]:
    """The groups of units that may be removed, in the order of the graph. Pure."""
    fixed, bent = net.units.fixed_roots(), net.units.inhomogeneous_roots()
    of_source = [
        np.array(sorted(set(net.units.roots(s.units).tolist()) - fixed), np.int64)
        for s in net.sources
    ]
    result: list[Group] = []
    for numbers in _components(of_source):
        members = np.unique(np.concatenate([of_source[i] for i in numbers]))
        living = set(members.tolist())
        readings = tuple(
            r for r in net.readings if living & set(net.units.roots(r.kernel.units).tolist())
        )
        if not readings:
            continue
        parts = tuple(
            (
                np.searchsorted(members, of_source[i]),
                max(0, _least(net, i) - _fixed_in(net, i, living)),
            )
            for i in numbers
        )
        names = list(dict.fromkeys(net.sources[i].layer.name for i in numbers))
        result.append(Group("+".join(names), members, parts, not living & bent, numbers, readings))
    return result


def _least(net: Network, source: int) -> int:
    """Number of roots that must be kept; units of a source may share one, as filters do."""
    made = net.sources[source]
    together = len(made.units) // len(np.unique(net.units.roots(made.units)))
    return -(-made.least // together)


def _fixed_in(net: Network, source: int, living: set[int]) -> int:
    return len(set(net.units.roots(net.sources[source].units).tolist()) - living)


def _components(of_source: list[np.ndarray]) -> list[tuple[int, ...]]:
    """Groups of sources that share a unit, by number."""
    owner: dict[int, int] = {}
    group = list(range(len(of_source)))

    def find(i: int) -> int:
        while group[i] != i:
            i = group[i]
        return i

    for i, roots in enumerate(of_source):
        for root in roots.tolist():
            a, b = find(owner.setdefault(root, i)), find(i)
            group[max(a, b)] = min(a, b)
    members: dict[int, list[int]] = {}
    for i, roots in enumerate(of_source):
        if len(roots):
            members.setdefault(find(i), []).append(i)
    return [tuple(numbers) for numbers in members.values()]
