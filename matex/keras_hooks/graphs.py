"""Access to the graphs of Keras's functional models."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import keras
from keras.src import backend
from keras.src.applications.convnext import LayerScale, StochasticDepth  # not in keras.layers
from keras.src.backend.common import global_state

from matex.errors import Unsupported
from matex.keras_hooks.error_text import reason_of

__all__ = [
    "GraphCall",
    "LayerScale",
    "StochasticDepth",
    "all_calls_in",
    "calls_in",
    "functional_of",
    "input_name",
    "is_operation",
    "made_again",
    "mask_of",
    "set_batch_shape",
    "set_option",
    "set_second_argument",
    "set_shape",
    "shapes_in_training",
]


class GraphCall(NamedTuple):
    """One call of an operation in a graph; tensors are ``keras.KerasTensor``."""

    operation: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    inputs: list[Any]
    outputs: list[Any]


def functional_of(model: Any) -> Any:
    """Graph of *model*, of its own layers; local.

    Raises:
        Unsupported: there is no graph, and ``call`` cannot be traced symbolically.
    """
    if isinstance(model, keras.Sequential):
        if model._functional is None:
            raise Unsupported(
                "a model is pruned once it is built. Received: a Sequential without an input "
                "shape; give it a keras.Input"
            )
        return model._functional
    if getattr(model, "_is_graph_network", False) or hasattr(model, "_nodes_by_depth"):
        return model
    return _followed(model)


def _followed(model: Any) -> Any:
    """A graph that shares the layers of a subclassed *model*."""
    shapes = model._build_shapes_dict
    name = type(model).__name__
    if not shapes or len(shapes) != 1:
        raise Unsupported(
            f"a model is pruned where its layers can be followed. Received: {name}, which was "
            "not built from the shape of one input; write it as a functional model"
        )
    (shape,) = shapes.values()
    counts = {id(layer): len(layer._inbound_nodes) for layer in model._flatten_layers()}
    try:
        inputs = keras.tree.map_shape_structure(lambda s: keras.Input(batch_shape=s), shape)
        outputs = model.call(inputs)
        return keras.Model(inputs, outputs)
    except (TypeError, ValueError, AttributeError, NotImplementedError, RuntimeError) as error:
        raise Unsupported(
            f"a model is pruned where its layers can be followed. Received: {name}, whose call "
            f"does not take symbolic tensors ({reason_of(error)}); write it as a functional model"
        ) from error
    finally:
        for layer in model._flatten_layers():
            known = counts.get(id(layer), 0)
            # The traced calls are of no use to saving and summaries.
            layer._inbound_nodes = layer._inbound_nodes[:known] or layer._inbound_nodes


def calls_in(functional: Any) -> Iterator[GraphCall]:
    """Calls of a graph, in an order in which they can be made."""
    for _, nodes in sorted(functional._nodes_by_depth.items(), reverse=True):
        for node in nodes:
            if node.operation is not None and not node.is_input:
                yield GraphCall(
                    node.operation,
                    node.arguments.args,
                    node.arguments.kwargs,
                    list(node.input_tensors),
                    list(node.outputs),
                )


def all_calls_in(model: Any) -> Iterator[GraphCall]:
    """Calls of the graph of *model*, and of the nested models with graphs."""
    for call in calls_in(functional_of(model)):
        if isinstance(call.operation, keras.Model):
            try:
                yield from all_calls_in(call.operation)
            except Unsupported:
                yield call
        else:
            yield call


def is_operation(operation: Any) -> bool:
    """Whether *operation* is a function of ``keras.ops`` rather than a layer."""
    return type(operation).__module__.startswith("keras.src.ops.")


def input_name(tensor: Any) -> str:
    """The name of the ``keras.Input`` that *tensor* is."""
    return str(tensor._keras_history.operation.name)


def mask_of(tensor: Any) -> Any | None:
    """Mask that the layer of *tensor* returned with it: bool, (batch, steps)."""
    return getattr(tensor, "_keras_mask", None)


def set_shape(tensor: Any, shape: tuple[Any, ...]) -> None:
    """Give a symbolic tensor another shape."""
    tensor._shape = shape


def set_batch_shape(layer: Any, shape: tuple[Any, ...]) -> None:
    """Give an ``InputLayer`` another shape."""
    layer._batch_shape = shape


def set_option(operation: Any, name: str, value: Any) -> None:
    """Set an option of a ``keras.ops`` function, in its saved form as well."""
    setattr(operation, name, value)
    saved = getattr(operation, "_auto_config", None)
    if saved is not None:
        saved.config[name] = type(saved)(**{name: value}).config[name]


def set_second_argument(call: GraphCall, value: Any) -> None:
    """Set the argument after the tensor of *call*, in its graph, to *value*."""
    history = call.outputs[0]._keras_history
    arguments = call.operation._inbound_nodes[history.node_index].arguments
    if len(arguments.args) > 1:
        arguments.args = (arguments.args[0], value, *arguments.args[2:])
    else:
        (name,) = arguments.kwargs
        arguments.kwargs = {name: value}


def shapes_in_training(call: GraphCall) -> list[tuple[Any, ...]]:
    """Shapes that *call* returns with the current weights, without computing.

    Local; it may draw from global generators.

    Raises:
        Exception: any exception of the operation for shapes that do not fit.
    """
    kwargs = dict(call.kwargs)
    if getattr(call.operation, "_call_has_training_arg", False):
        kwargs["training"] = True
    losses = getattr(call.operation, "_losses", None)
    known = None if losses is None else list(losses)
    made = backend.compute_output_spec(call.operation.call, *call.args, **kwargs)
    if losses is not None:
        losses[:] = known
    return [tuple(one.shape) for one in keras.tree.flatten(made)]


def made_again(model: Any) -> list[tuple[str, tuple[int, ...]]]:
    """Path and shape of each weight of a model made of the options of *model*; local.

    No value is made for them, so it takes no memory. It may draw from global generators.

    Raises:
        Exception: any exception of a layer for options that do not fit.
    """
    with _no_values():
        again = type(model).from_config(model.get_config())
        return [(variable.path, tuple(variable.shape)) for variable in again.weights]


@contextlib.contextmanager
def _no_values() -> Iterator[None]:
    """Variables that are made inside never get a value."""
    waiting = "uninitialized_variables"
    known = list(global_state.get_global_attribute(waiting) or [])
    try:
        with keras.StatelessScope(initialize_variables=False):
            yield
    finally:
        global_state.set_global_attribute(waiting, known)
