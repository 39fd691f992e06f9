"""EinsumDense: a kernel whose axes are named by the letters of an equation, ``"abc,cd->abd"``.

The units that it reads run along a letter that the input and the kernel share and the output does
not have: the sum is over it. Those that it makes run along the last letter of the output that the
kernel has and the input does not.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np

from matex.apoptosis.graph.network import Network, Reading, Tag
from matex.apoptosis.graph.rules.dense import activated, adaptation

__all__ = ["einsum_dense"]

Tags = list[Tag | None]

_EQUATION = re.compile(r"(\.\.\.)?([a-zA-Z]+),([a-zA-Z]+)->(\.\.\.)?([a-zA-Z]+)")


class _Letters(NamedTuple):
    """Last letters, in order, of the input, of the kernel and of the output."""

    given: str
    kernel: str
    made: str

    def axis_of(self, letter: str, letters: str) -> int:
        """The axis of *letter*, from the end."""
        return letters.index(letter) - len(letters)


def einsum_dense(net: Network, call: Any, tags: Tags) -> Tags:
    layer, (tag,) = call.operation, tags
    (output,) = call.outputs
    letters = _letters(layer.equation)
    new = [] if letters is None else [c for c in letters.made if c not in letters.given]
    if adapted := adaptation(layer):
        net.leave(layer, tags, adapted)
        return [None]
    if letters is None or not new:
        net.leave(layer, tags, "its equation makes no units of its own")
        return [None]
    if tag is not None and not _reads(letters, tag.axis - len(call.inputs[0].shape)):
        net.leave(layer, tags, "its equation does not sum over the units")
        return [None]
    net.work.append((layer.kernel, _times(letters, call.inputs[0].shape)))
    if tag is None:
        for letter in (c for c in letters.kernel if c in letters.given):
            net.bind_fixed(layer.kernel, letters.kernel.index(letter))
    else:
        read = tag.axis - len(call.inputs[0].shape)
        letter = letters.given[read]
        kernel = net.bind(layer.kernel, letters.kernel.index(letter), tag.units)
        bias = layer.bias if letters.kernel == letter + new[-1] else None
        net.read(Reading(layer, read, tag.units, kernel, bias))
    axis = letters.axis_of(new[-1], letters.made)
    units = net.units.new(int(output.shape[axis]))
    parts = [(layer.kernel, letters.kernel.index(new[-1]))]
    if layer.bias is not None and new[-1] in layer.bias_axes:
        # A bias has the axes of the output from the first that it is along.
        parts.append((layer.bias, len(layer.bias.shape) + axis))
    number = net.source(layer, *parts, units=units)
    net.size(units, lambda n: _set_size(layer, axis, n))
    made = Tag(len(output.shape) + axis, units, number, linear=True)
    return [activated(net, layer, made)]


def _letters(equation: str) -> _Letters | None:
    found = _EQUATION.fullmatch(equation.replace(" ", ""))
    if found is None or bool(found[1]) != bool(found[4]):
        return None
    return _Letters(found[2], found[3], found[5])


def _reads(letters: _Letters, axis: int) -> bool:
    """Whether the units along *axis* of the input, from the end, are summed over."""
    if len(letters.given) < -axis:
        return False
    letter = letters.given[axis]
    return letter in letters.kernel and letter not in letters.made


def _times(letters: _Letters, shape: tuple[int | None, ...]) -> float:
    """Multiplications by each weight per sample: one at each position without a kernel axis."""
    sizes = [n or 1 for n in shape[1:]]
    named = letters.given[-len(sizes) :]
    others = sizes[: len(sizes) - len(named)]
    free = [n for n, c in zip(sizes[-len(named) :], named, strict=True) if c not in letters.kernel]
    return float(np.prod([*others, *free]))


def _set_size(layer: Any, axis: int, size: int) -> None:
    shape = list(layer.partial_output_shape)
    shape[axis] = size
    layer.partial_output_shape = tuple(shape)
