"""Functions made of single tensors of a traced function, without unneeded operations.

A mask is sometimes broadcast to the shape of the model's output. Its values need the labels alone,
but in the graph it depends on the whole forward pass. TensorFlow infers shapes when it imports a
graph. So the part of it that determines a shape is imported twice, for arguments of two sizes, and
computed where TensorFlow infers nothing, as behind loops; an axis whose length equals that of an
argument's axis both times is taken to follow that axis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from matex.errors import NotShareable
from matex.steps.graphs.axis_lengths import Axis, filled, followed, two_trials
from matex.steps.graphs.shape_effects import has_fixed_shapes
from matex.steps.graphs.specialization import concrete

__all__ = ["changes_without", "function_of", "sizes_by_arguments"]

# Operations as expensive as the step itself, if every rank computed them for all rows.
_HEAVY = ("MatMul", "Einsum", "Conv", "While", "RNN", "If", "Case", "PartitionedCall")


def function_of(
    traced: Any, wanted: list[Any], signature: Any, *, purpose: str
) -> Callable[[Any], np.ndarray]:
    """*wanted*, scalars of the graph of *traced*, as a function of its first argument. Local.

    Args:
        traced: concrete function.
        wanted: tensors of float64, at least one.
        signature: signature of the first argument.
        purpose: description of *wanted*, for error messages.

    Returns:
        Function of a batch, which returns float64 of shape (number of *wanted*,).

    Raises:
        NotShareable: *wanted* needs more than the first argument and cheap operations.
    """
    graph = traced.graph
    if any(tensor.graph is not graph for tensor in wanted):
        raise NotShareable(f"{purpose} are computed in a loop or a function of their own")
    parts = tf.nest.flatten(signature, expand_composites=True)
    arguments = graph.inputs[: len(parts)]
    is_dense = len(parts) == len(tf.nest.flatten(signature))  # rows are the first axis of each
    operations = (tensor.op for tensor in wanted)
    needed, shapes = _needed(operations, arguments if is_dense else (), purpose)
    captured = {id(inner): outer for outer, inner in graph.captures}
    mapped = {}
    for place in graph.inputs:
        if place.op.name not in needed:
            continue
        index = next((i for i, one in enumerate(arguments) if one is place), None)
        outer = captured.get(id(place))
        if index is None and (outer is None or place.dtype in (tf.resource, tf.variant)):
            raise NotShareable(f"{purpose} depend on what a step changes")
        mapped[place.name] = index if outer is None else outer
    for operation in needed.values():
        if operation.op_def.is_stateful:
            raise NotShareable(f"{purpose} depend on {operation.type}, which has a state")
    definition = _definition(graph, needed)
    names = [tensor.name for tensor in wanted]

    def compute(batch: Any) -> Any:
        flat = tf.nest.flatten(batch, expand_composites=True)
        inputs = {
            name: flat[source] if isinstance(source, int) else tf.identity(source)
            for name, source in mapped.items()
        }
        for name, sizes in shapes.items():
            inputs[name] = tf.convert_to_tensor([_length(size, flat) for size in sizes], tf.int32)
        return tf.stack(
            tf.graph_util.import_graph_def(
                definition, input_map=inputs, return_elements=names, name="needed"
            )
        )

    function = concrete(compute, (signature,))
    return lambda batch: np.asarray(function(batch))


def changes_without(traced: Any) -> Callable[[], None]:
    """Function for the changes that the concrete *traced* makes without its arguments. Local.

    If its arguments never arrive TensorFlow runs just this part of a graph: counters, and
    other operations that depend on variables alone.
    """
    graph = traced.graph
    captured = {id(inner): outer for outer, inner in graph.captures}
    waiting = {place.op.name for place in graph.inputs if id(place) not in captured}
    needed_by: dict[str, list[Any]] = {}
    changing = []
    for operation in graph.get_operations():
        for before in (*(tensor.op for tensor in operation.inputs), *operation.control_inputs):
            needed_by.setdefault(before.name, []).append(operation)
        if _is_heavy(operation.type):  # the end of data comes before these
            waiting.add(operation.name)
        elif operation.type.startswith("Assign"):
            changing.append(operation)
    pending = list(waiting)
    while pending:
        later = [one.name for one in needed_by.get(pending.pop(), ()) if one.name not in waiting]
        waiting.update(later)
        pending += later
    names: set[str] = set()
    left = [operation for operation in changing if operation.name not in waiting]
    while left:
        operation = left.pop()
        if operation.name not in names:
            names.add(operation.name)
            left += [tensor.op for tensor in operation.inputs]
            left += operation.control_inputs
    given = {place.name: captured[id(place)] for place in graph.inputs if place.op.name in names}
    definition = _definition(graph, names)

    def change() -> None:
        inner = tf.compat.v1.get_default_graph()
        inputs = {name: inner.capture(outer) for name, outer in given.items()}
        tf.graph_util.import_graph_def(definition, input_map=inputs, name="changes")

    return concrete(change, ())


def _length(size: int | Axis, arguments: list[Any]) -> Any:
    return tf.shape(arguments[size.argument])[size.axis] if isinstance(size, Axis) else size


def _needed(
    operations: Iterable[Any], arguments: Sequence[Any], purpose: str
) -> tuple[dict[str, Any], dict[str, list[int | Axis]]]:
    """*operations* and all operations that they depend on, by name.

    Shapes that follow from those of *arguments* depend on nothing else: they are returned
    separately, by the name of the shape tensor.

    Raises:
        NotShareable: a needed operation is expensive.
    """
    needed: dict[str, Any] = {}
    shapes: dict[str, list[int | Axis]] = {}
    pending = list(operations)
    while pending:
        operation = pending.pop()
        if operation.name in needed or any(one.name in shapes for one in operation.outputs):
            continue
        sizes = None
        if operation.type == "Shape" and operation.outputs[0].dtype == tf.int32:
            sizes = sizes_by_arguments(operation.inputs[0], arguments)
        if sizes is not None:
            shapes[operation.outputs[0].name] = sizes
        else:
            if _is_heavy(operation.type):  # before its own shapes are tried
                raise NotShareable(f"{purpose} depend on {operation.type}, too much for each rank")
            needed[operation.name] = operation
            pending += [tensor.op for tensor in operation.inputs]
            pending += operation.control_inputs
    return needed, shapes


def sizes_by_arguments(tensor: Any, arguments: Sequence[Any]) -> list[int | Axis] | None:
    """Length of each axis of *tensor*: a number, or an axis of an argument of equal length. Local.

    Args:
        tensor: tensor of a graph.
        arguments: placeholders of the same graph, with equal lengths of the first axis.

    Returns:
        Lengths; None if TensorFlow cannot infer them, nor compute them from other values.
    """
    if tensor.shape.rank is None or any(one.shape.rank is None for one in arguments):
        return None
    shapes = [tuple(one.shape) for one in arguments]
    lengths = two_trials(shapes)
    if lengths is None:
        return None
    for shape_for in (_inferred, _computed):
        found = [shape_for(tensor, arguments, filled(shapes, trial)) for trial in lengths]
        sizes = followed(tuple(tensor.shape), found, lengths)
        if sizes is not None:
            return sizes
    return None


def _inferred(
    tensor: Any, arguments: Sequence[Any], shapes: Sequence[Sequence[int]]
) -> tuple[int | None, ...] | None:
    """Shape of *tensor* for arguments of *shapes*, as TensorFlow infers it; None if unknown."""
    operations, given = _leading_to(tensor, arguments)
    with tf.Graph().as_default():
        inputs = {}
        for one in given:
            number = _number(one, arguments)
            shape = one.shape if number is None else shapes[number]
            inputs[one.name] = tf.compat.v1.placeholder(one.dtype, shape)
        definition = _data_flow(tensor.graph, operations)
        try:
            [found] = tf.graph_util.import_graph_def(definition, inputs, [tensor.name])
        except ValueError:  # these lengths do not fit together
            return None
        return None if found.shape.rank is None else tuple(found.shape)


def _computed(
    tensor: Any, arguments: Sequence[Any], shapes: Sequence[Sequence[int]]
) -> tuple[int, ...] | None:
    """Shape of *tensor* when it is computed for zeros of *shapes*; None if it may be another.

    Only what is too expensive to be computed for whole batches is computed here.
    """
    operations, given = _leading_to(tensor, arguments)
    graph = tensor.graph
    captured = {id(inner): outer for outer, inner in graph.captures}
    inputs: dict[str, Any] = {}
    for one in given:
        number = _number(one, arguments)
        shape = one.shape if number is None else shapes[number]
        if id(one) in captured:
            inputs[one.name] = captured[id(one)]
        elif tf.TensorShape(shape).is_fully_defined() and one.dtype.is_numpy_compatible:
            inputs[one.name] = tf.zeros(shape, one.dtype)
        else:
            return None
    needed = [graph.get_operation_by_name(name) for name in operations]
    if not any(_is_heavy(one.type) for one in needed) or not has_fixed_shapes(needed, graph):
        return None
    definition = _data_flow(graph, operations)

    def compute() -> Any:
        inner = tf.compat.v1.get_default_graph()
        mapped = {name: inner.capture(outer) for name, outer in inputs.items()}
        return tf.shape(tf.graph_util.import_graph_def(definition, mapped, [tensor.name])[0])

    try:
        return tuple(concrete(compute, ())().numpy().tolist())
    except (ValueError, tf.errors.OpError):  # these lengths do not fit together
        return None


def _number(tensor: Any, arguments: Sequence[Any]) -> int | None:
    """Place of *tensor* among *arguments*; None if it is none of them."""
    return next((n for n, argument in enumerate(arguments) if argument is tensor), None)


def _is_heavy(kind: str) -> bool:
    return any(heavy in kind for heavy in _HEAVY)


def _leading_to(tensor: Any, arguments: Sequence[Any]) -> tuple[set[str], list[Any]]:
    """Operations that determine the shape of *tensor*, and their inputs.

    Weights are inputs, like other non-integer tensors of known shape.
    """
    operations: set[str] = set()
    given: dict[str, Any] = {}
    pending = [tensor]
    while pending:
        one = pending.pop()
        fixed = one.shape.is_fully_defined() and (one.dtype.is_floating or one.dtype.is_bool)
        if fixed or one.op.type == "Placeholder":
            given[one.name] = one
        elif one.op.name not in operations:
            operations.add(one.op.name)
            pending += one.op.inputs
    return operations, list(given.values())


def _definition(graph: Any, names: Iterable[str]) -> Any:
    """Graph definition with the operations of *graph* called *names*, for import elsewhere."""
    chosen = set(names)
    whole = graph.as_graph_def()
    definition = type(whole)(versions=whole.versions, library=whole.library)
    definition.node.extend(node for node in whole.node if node.name in chosen)
    return definition


def _data_flow(graph: Any, names: Iterable[str]) -> Any:
    """:func:`_definition` without control dependencies."""
    definition = _definition(graph, names)
    for node in definition.node:
        data = [name for name in node.input if not name.startswith("^")]
        del node.input[:]
        node.input.extend(data)
    return definition
