"""Step of a custom loop, as the ``train_step`` of a model."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable
from typing import Any

import keras
import tensorflow as tf

from matex.errors import NotShareable
from matex.keras_hooks.functions import with_functions_inline
from matex.keras_hooks.metrics import replaced_methods
from matex.keras_hooks.optimizers import build_for
from matex.keras_hooks.permitted_updates import replaced_apply

__all__ = ["NoUpdate", "ScriptModel", "script_model"]

_OWNERS = (keras.layers.Layer, keras.metrics.Metric, keras.random.SeedGenerator, keras.Variable)


class NoUpdate(NotShareable):
    """A function of the script calls no optimizer with these arguments."""


class ScriptModel(keras.Model):
    """Model of the objects that a script's function trains, whose step is a call of it.

    Its metrics may not be reset in the function, because their states start anew in each step.

    Args:
        name: name of the function.
        code: function of the arguments of one call.
        parts: objects whose variables the function reaches.
        optimizers: optimizers that it calls, in their order.
    """

    def __init__(
        self, name: str, code: Callable[..., Any], parts: Iterable[Any], optimizers: list[Any]
    ) -> None:
        super().__init__(name="script")
        parts = list(parts)
        self.code = code
        self._result: Any = None
        # Keras sees by their kind which of its lists they belong to.
        self._script_layers = [one for one in parts if isinstance(one, keras.layers.Layer)]
        self._script_metrics = [one for one in parts if isinstance(one, keras.metrics.Metric)]
        self._script_seeds = [one for one in parts if isinstance(one, keras.random.SeedGenerator)]
        self._script_variables = [one for one in parts if isinstance(one, keras.Variable)]
        self._script_optimizers = optimizers
        self.optimizer = optimizers[0]
        self.run_eagerly = self.jit_compile = False
        self.step_name = name

    def train_step(self, data: Any) -> dict[str, Any]:
        """Tensors that the function returns, by position."""
        args, kwargs = data
        reasons: list[str] = []

        def resetting(metric: Any) -> Callable[[], None]:
            return lambda: reasons.append(f"it resets the metric {metric.name!r}")

        with replaced_methods(self._script_metrics, "reset_state", resetting):
            result = self.code(*args, **kwargs)
        if reasons:
            raise NotShareable(reasons[0])
        leaves = tf.nest.flatten(result, expand_composites=False)
        tensors = {
            str(place): tf.convert_to_tensor(leaf)
            for place, leaf in enumerate(leaves)
            if tf.is_tensor(leaf) or isinstance(leaf, keras.Variable | tf.Variable)
        }
        rest = [None if str(place) in tensors else leaf for place, leaf in enumerate(leaves)]
        # Past Keras's own attributes, which would keep lists of it.
        object.__setattr__(self, "_result", (result, rest))
        return tensors

    def result_of(self, logs: dict[str, Any]) -> Any:
        """Result of the script's function in the last step, with tensors' values from *logs*."""
        result, rest = self._result
        leaves = [logs.get(str(place), leaf) for place, leaf in enumerate(rest)]
        return tf.nest.pack_sequence_as(result, leaves)


def script_model(
    name: str,
    code: Callable[..., Any],
    signature: Any,
    as_data: Callable[[Any], tuple[tuple[Any, ...], dict[str, Any]]],
) -> ScriptModel:
    """Model of a function of the script, which is traced for it. Local.

    The optimizers that it calls are built, as they would be by its first call.

    Args:
        name: name of the function.
        code: Python code of the function.
        signature: signature of the batches.
        as_data: makes of a batch the function's arguments.

    Raises:
        NoUpdate: the function calls no optimizer.
    """
    optimizers: list[Any] = []

    def note(optimizer: Any, gradients: list[Any], variables: Any) -> None:
        if not optimizer.built:
            build_for(optimizer, list(variables))
        if all(optimizer is not one for one in optimizers):
            optimizers.append(optimizer)

    def call(batch: Any) -> Any:
        args, kwargs = as_data(batch)
        with_functions_inline(code, *args, **kwargs)
        return tf.constant(0)

    with replaced_apply(note):
        traced = tf.function(call, autograph=False).get_concrete_function(signature)
    if not optimizers:
        raise NoUpdate("it calls no optimizer")
    return ScriptModel(name, code, _parts(traced, optimizers), optimizers)


def _parts(traced: Any, optimizers: list[Any]) -> list[Any]:
    """The layers, metrics, generators and single variables that *traced* reaches."""
    reached = {id(handle) for handle in traced.captured_inputs}
    slots = {id(variable) for optimizer in optimizers for variable in optimizer.variables}
    owners: list[Any] = []
    single: dict[int, Any] = {}
    for thing in gc.get_objects():
        if not issubclass(type(thing), _OWNERS) or isinstance(thing, ScriptModel):
            continue  # a model of other forms of the function holds the same
        if isinstance(thing, keras.Variable):
            if id(thing) not in slots and _is_reached(thing, reached):
                single[id(thing)] = thing
        elif any(_is_reached(variable, reached) for variable in _own_variables(thing)):
            owners.append(thing)
    inner = {id(one) for owner in owners for one in getattr(owner, "_metrics", ())}
    owners = [owner for owner in owners if id(owner) not in inner or _is_layer(owner)]
    for owner in owners:
        for variable in _own_variables(owner):
            single.pop(id(variable), None)
    # The collector's order is not that of other ranks.
    found = [*owners, *single.values()]
    order = {handle: place for place, handle in enumerate(map(id, traced.captured_inputs))}
    return sorted(found, key=lambda thing: _first(thing, order))


def _is_layer(thing: Any) -> bool:
    return isinstance(thing, keras.layers.Layer)


def _own_variables(thing: Any) -> list[Any]:
    """Variables of *thing* itself; for a metric also those of metrics inside it."""
    if isinstance(thing, keras.Variable):
        return [thing]
    if isinstance(thing, keras.layers.Layer):
        seeds = [generator.state for generator in thing._seed_generators]
        return [*thing._trainable_variables, *thing._non_trainable_variables, *seeds]
    if isinstance(thing, keras.random.SeedGenerator):
        return [thing.state]
    return list(thing.variables)


def _is_reached(variable: Any, reached: set[int]) -> bool:
    value = getattr(variable, "_value", None)
    return value is not None and id(value.handle) in reached


def _first(thing: Any, order: dict[int, int]) -> int:
    handles = [id(v._value.handle) for v in _own_variables(thing) if v._value is not None]
    return min(order.get(handle, len(order)) for handle in handles)
