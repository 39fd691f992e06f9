"""Recurrent layers, whose units also read themselves.

LSTM unit j is columns j, j + H, j + 2H, j + 3H of kernel, recurrent kernel and bias, and row
j of the recurrent kernel (GRU: three gates; SimpleRNN: one).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from matex import keras_hooks
from matex.apoptosis.graph.kinds import is_elementwise
from matex.apoptosis.graph.network import Network, Reading, Tag
from matex.apoptosis.graph.rules.dense import NOT_SUMMED, why_kept

__all__ = ["bidirectional", "convolutional", "of_cells", "recurrent"]

Tags = list[Tag | None]


def recurrent(net: Network, call: Any, tags: Tags) -> Tags:
    layer, (tag, *states) = call.operation, tags
    why = NOT_SUMMED if tag is not None and tag.axis != 2 else _mixing(layer.cell)
    if why:
        net.leave(layer, tags, why)
        return [None] * len(call.outputs)
    units = _cell(net, layer, layer, tag, call.inputs[0])
    for state in states:  # given from outside, unit by unit
        if state is None:
            net.units.fix(units)
        else:
            net.units.tie(units, state.units)
    return [Tag(len(output.shape) - 1, units) for output in call.outputs]


def bidirectional(net: Network, call: Any, tags: Tags) -> Tags:
    """Unit j of both directions is removed at once: Keras requires equal numbers of units."""
    layer, (tag, *states) = call.operation, tags
    halves = layer.forward_layer, layer.backward_layer
    why = ""
    if not all(type(half) in _RECURRENT for half in halves):
        why = f"no rule says what of {type(halves[0]).__name__} in it could be removed"
    elif halves[0].units != halves[1].units:
        why = "its directions have different numbers of units"
    elif states:
        why = "its states are given"
    elif tag is not None and tag.axis != 2:
        why = NOT_SUMMED
    else:
        why = _mixing(*(half.cell for half in halves))
    if why:
        net.leave(layer, [tag, *states], why)
        return [None] * len(call.outputs)
    (inputs,) = call.inputs
    forward, backward = (_cell(net, layer, half, tag, inputs) for half in halves)
    net.units.tie(forward, backward)
    for half in halves:
        net.calls.append((call._replace(operation=half), [tag]))
    joins = layer.merge_mode == "concat"
    both = [np.concatenate([forward, backward])] if joins else [forward]
    made = [forward, backward] if layer.merge_mode is None else both
    states_made = len(call.outputs) - len(made)
    made += [forward] * (states_made // 2) + [backward] * (states_made // 2)
    return [
        Tag(len(output.shape) - 1, units) for output, units in zip(call.outputs, made, strict=True)
    ]


def _mixing(*cells: Any) -> str:
    """Reason for which units of *cells* read each other outside of their kernels; "" if none."""
    functions = (f for cell in cells for f in (cell.activation, _of_gates(cell)))
    return next((why_kept(one) for one in functions if not is_elementwise(one)), "")


def _of_gates(cell: Any) -> Any:
    return getattr(cell, "recurrent_activation", None)  # a simple one has no gates


_RECURRENT = (keras.layers.LSTM, keras.layers.GRU, keras.layers.SimpleRNN)


def _cell(net: Network, called: Any, layer: Any, tag: Tag | None, inputs: Any) -> np.ndarray:
    """Units of *layer*, called as *called* or as itself, with *inputs* as its input."""
    cell = layer.cell
    steps = float(inputs.shape[1] or 1)
    net.work += [(cell.kernel, steps), (cell.recurrent_kernel, steps)]
    if tag is not None:
        kernel = net.bind(cell.kernel, 0, tag.units)
        net.read(Reading(called, 2, tag.units, kernel, cell.bias))
    else:
        net.bind_fixed(cell.kernel, 0)
    units = net.units.new(cell.units)
    parts = [(cell.kernel, 1), (cell.recurrent_kernel, 1)]
    if cell.bias is not None:
        parts.append((cell.bias, len(cell.bias.shape) - 1))
    net.source(called, *parts, units=units)
    net.units.mark_inhomogeneous(units)
    own = net.bind(cell.recurrent_kernel, 0, units)
    net.read(Reading(called, 2, units, own, None, lambda x: states_of(layer, x)))
    net.size(units, lambda n: _resize(layer, n))
    return units


def convolutional(net: Network, call: Any, tags: Tags) -> Tags:
    """ConvLSTM: the gates are convolutions, of the input and of the state."""
    layer, (tag, *states) = call.operation, tags
    cell, rank = layer.cell, layer.cell.rank
    first = cell.data_format == "channels_first"
    channels = 2 if first else rank + 2
    why = "its states are given" if states else _mixing(cell)
    if tag is not None and tag.axis != channels:
        why = why or NOT_SUMMED
    if why:
        net.leave(layer, tags, why)
        return [None] * len(call.outputs)
    inputs, output = call.inputs[0], call.outputs[0]
    sides = output.shape[-rank:] if first else output.shape[-rank - 1 : -1]
    positions = float((inputs.shape[1] or 1) * np.prod(sides))
    net.work += [(cell.kernel, positions), (cell.recurrent_kernel, positions)]
    if tag is not None:
        kernel = net.bind(cell.kernel, rank, tag.units)
        sees_no_border = cell.padding == "valid" or max(cell.kernel_size) == 1
        bias = cell.bias if sees_no_border else None
        net.read(Reading(layer, channels, tag.units, kernel, bias))
        net.size(tag.units, lambda n: _give_channels(cell, n, first=first))
    else:
        net.bind_fixed(cell.kernel, rank)
    units = net.units.new(cell.filters)
    parts = [(cell.kernel, rank + 1), (cell.recurrent_kernel, rank + 1), (cell.bias, 0)]
    net.source(layer, *parts, units=units)
    net.units.mark_inhomogeneous(units)
    own = net.bind(cell.recurrent_kernel, rank, units)
    net.read(Reading(layer, channels, units, own, None, lambda x: states_of(layer, x)))
    net.size(units, lambda n: setattr(cell, "filters", n))
    return [Tag(len(made.shape) - (rank + 1 if first else 1), units) for made in call.outputs]


def _give_channels(cell: Any, channels: int, *, first: bool) -> None:
    """Set the number of input channels that a built cell of ConvLSTM holds."""
    cell.input_dim = channels
    cell.kernel_shape = (*cell.kernel_size, channels, cell.kernel_shape[-1])
    shape = list(cell.input_spec.shape)
    shape[1 if first else -1] = channels
    cell.input_spec = keras.layers.InputSpec(ndim=cell.input_spec.ndim, shape=tuple(shape))


def states_of(layer: Any, x: Any) -> Any:
    """The states that each step of the recurrent layer reads, shape (batch, time, units)."""
    given = layer.return_sequences, layer.return_state
    layer.return_sequences, layer.return_state = True, False
    try:
        outputs = type(layer).call(layer, x, mask=keras_hooks.mask_of(x))
    finally:
        layer.return_sequences, layer.return_state = given
    return _but_the_last(outputs)


def _resize(layer: Any, units: int) -> None:
    _resize_cell(layer.cell, units)
    layer.state_size = [units] * len(layer.state_size)


def _resize_cell(cell: Any, units: int) -> None:
    several = isinstance(cell.state_size, list | tuple)
    cell.units = cell.output_size = units
    cell.state_size = [units] * len(cell.state_size) if several else units


_CELLS = (keras.layers.LSTMCell, keras.layers.GRUCell, keras.layers.SimpleRNNCell)


def of_cells(net: Network, call: Any, tags: Tags) -> Tags:
    """RNN of one Keras cell, or of several cells, each of which reads the previous one."""
    layer, (tag, *states) = call.operation, tags
    stacked = type(layer.cell) is keras.layers.StackedRNNCells
    cells = layer.cell.cells if stacked else [layer.cell]
    why = ""
    if odd := next((cell for cell in cells if type(cell) not in _CELLS), None):
        why = f"no rule says what of {type(odd).__name__} in it could be removed"
    elif states:
        why = "its states are given"
    elif tag is not None and tag.axis != 2:
        why = NOT_SUMMED
    else:
        why = _mixing(*cells)
    if why:
        net.leave(layer, tags, why)
        return [None] * len(call.outputs)
    made: Tags = []
    width = call.inputs[0].shape[-1]
    for number, cell in enumerate(cells):
        steps = float(call.inputs[0].shape[1] or 1)
        net.work += [(cell.kernel, steps), (cell.recurrent_kernel, steps)]
        if tag is not None:
            kernel = net.bind(cell.kernel, 0, tag.units)
            before = _run_of(layer, cells[:number]) if number else None
            net.read(Reading(layer, 2, tag.units, kernel, cell.bias, before))
        else:
            net.bind_fixed(cell.kernel, 0)
        given = keras.KerasTensor((None, width))
        inner = keras_hooks.GraphCall(cell, (given,), {}, [given], [])
        net.shape(given, tag and tag._replace(axis=1))
        net.calls.append((inner, [tag and tag._replace(axis=1)]))
        units = net.units.new(cell.units)
        parts = [(cell.kernel, 1), (cell.recurrent_kernel, 1)]
        if cell.bias is not None:
            parts.append((cell.bias, len(cell.bias.shape) - 1))
        net.source(layer, *parts, units=units)
        net.units.mark_inhomogeneous(units)
        own = net.bind(cell.recurrent_kernel, 0, units)
        run = _run_of(layer, cells[: number + 1])
        net.read(Reading(layer, 2, units, own, None, lambda x, run=run: _but_the_last(run(x))))  # type: ignore[misc]
        net.size(units, lambda n, cell=cell: _resize_one(layer, cells, cell, n))  # type: ignore[misc]
        tag, width = Tag(2, units), cell.units
        made += [tag._replace(axis=1)] * len(np.ravel(cell.state_size))
    axis = len(call.outputs[0].shape) - 1
    return [tag and tag._replace(axis=axis), *made][: len(call.outputs)]


def _run_of(layer: Any, cells: list[Any]) -> Callable[[Any], Any]:
    """A function that gives the outputs of the last of *cells*, shape (batch, time, units)."""

    def run(x: Any) -> Any:
        cell = keras.layers.StackedRNNCells(cells, name="some") if len(cells) > 1 else cells[0]
        of_some = keras.layers.RNN(
            cell, return_sequences=True, go_backwards=layer.go_backwards, name="of_some"
        )
        return of_some.call(x, mask=keras_hooks.mask_of(x))

    return run


def _but_the_last(outputs: Any) -> Any:
    return outputs[:, :-1] if int(outputs.shape[1]) > 1 else outputs


def _resize_one(layer: Any, cells: list[Any], cell: Any, units: int) -> None:
    _resize_cell(cell, units)
    sizes = [one.state_size for one in cells]
    layer.state_size = sizes if len(cells) > 1 else np.ravel(sizes[0]).tolist()
