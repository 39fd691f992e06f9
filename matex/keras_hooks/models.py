"""Access to Keras's models."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Collection, Iterator
from typing import Any

import keras
import tensorflow as tf
from keras.src.backend.common import global_state
from keras.src.models.functional import Functional

from matex.errors import NotShareable, Unsupported
from matex.keras_hooks.unbuilt_metrics import reset_as_ever, unbuilt_of
from matex.replacing import replaced

__all__ = [
    "around_builds",
    "changing_variables",
    "drawing_from",
    "first_epoch",
    "flat_layers",
    "has_all_variables",
    "has_call",
    "has_own_build",
    "has_own_train_step",
    "is_complete",
    "is_graph",
    "is_in_float16",
    "is_made_once",
    "is_precise",
    "layers_with_weights",
    "managed_attributes",
    "metric_variables",
    "parameters",
    "parts_of",
    "refuse",
    "refuse_scopes",
    "seed_variables",
    "set_by_fits",
    "start_at",
    "validation_of",
    "without_memory",
]


def described(description: Any, known: dict[str, Any], *, allows_code: bool) -> Any:
    """Object that Keras makes of its *description*; local.

    Args:
        description: result of ``serialize_keras_object``.
        known: the script's classes and functions, by name.
        allows_code: whether code of Lambda layers is allowed.
    """
    return keras.saving.deserialize_keras_object(
        description, custom_objects=known, safe_mode=not allows_code
    )


def parameters(model: Any) -> int:
    """Number of elements of the weights of *model*, trained or not, even if it has no call."""
    return sum(math.prod(weight.shape) for weight in model.weights)


def changing_variables(model: Any) -> list[Any]:
    """Variables made to change outside the optimizer: not weights, not frozen weights."""
    weights = {id(v) for layer in model._flatten_layers() for v in layer._trainable_variables}
    return [v for v in model.non_trainable_variables if id(v) not in weights]


def flat_layers(model: Any) -> list[Any]:
    """All layers of *model* at any depth, and *model* itself."""
    return list(model._flatten_layers())


def layers_with_weights(model: Any) -> list[Any]:
    """Layers that hold weights themselves, at any depth of *model*."""
    return [
        layer
        for layer in model._flatten_layers()
        if layer._trainable_variables or layer._non_trainable_variables
    ]


def is_graph(model: Any) -> bool:
    """Whether *model* consists of layers that it can list: Sequential or functional."""
    return isinstance(model, keras.Sequential | Functional)


def is_precise(model: Any) -> bool:
    """Whether no layer computes in less than float32."""
    return all(layer.compute_dtype in ("float32", "float64") for layer in model._flatten_layers())


def is_in_float16(model: Any) -> bool:
    """Whether a layer computes in float16, whose sums overflow above 65504."""
    return any(layer.compute_dtype == "float16" for layer in model._flatten_layers())


def seed_variables(model: Any) -> list[Any]:
    """States of the model's random generators, shape (2,)."""
    found = {
        id(generator.state): generator.state
        for layer in model._flatten_layers()
        for generator in layer._seed_generators
    }
    return list(found.values())


def drawing_from(model: Any, handles: Collection[int]) -> list[str]:
    """Names of the layers of *model* whose random generators are among *handles*, by identity."""
    return [
        layer.name
        for layer in model._flatten_layers()
        if any(id(made.state.value.handle) in handles for made in layer._seed_generators)
    ]


def refuse(model: Any) -> None:
    """Raise for a model that cannot be trained rightly in parallel.

    Raises:
        NotShareable: a strategy of ``tf.distribute`` with one replica, in whose scope alone
            Keras's own functions train, naming it; or a layer that draws by the number of rows
            that is known when a graph is traced.
        Unsupported: a strategy of ``tf.distribute`` with several replicas.
    """
    if model.distribute_strategy.num_replicas_in_sync > 1:
        raise Unsupported(
            "matex shares the batch among ranks itself: do not use tf.distribute. "
            f"Received: {type(model.distribute_strategy).__name__}"
        )
    refuse_scopes(model)
    for layer in model._flatten_layers():
        if isinstance(layer, keras.layers.RandomElasticTransform):
            raise NotShareable(
                f"{layer.name} draws a field for each row, or one for all, as the graph is traced"
            )


def metric_variables(model: Any) -> list[Any]:
    """The states of all metrics of *model*.

    Keras counts its loss and the compiled metrics, too, where the model's own ``metrics`` leave
    them out.
    """
    found = list(model.metrics_variables)
    known = {id(variable) for variable in found}
    loss, compiled = (getattr(model, name, None) for name in ("_loss_tracker", "_compile_metrics"))
    by_output = getattr(getattr(model, "_compile_loss", None), "metrics", [])
    for metric in (loss, compiled, *by_output):
        if metric is not None:
            found += [variable for variable in metric.variables if id(variable) not in known]
            known.update(map(id, found))
    return found


def refuse_scopes(model: Any) -> None:
    """Raise for a model that computes in the scope of a strategy of ``tf.distribute``.

    Raises:
        NotShareable: it names the strategy.
    """
    name = type(model.distribute_strategy).__name__
    if name != "_DefaultDistributionStrategy":
        raise NotShareable(f"the model was made in the scope of a {name}")


def first_epoch(model: Any, given: int) -> int:
    """First epoch of the running fit, for ``initial_epoch`` *given*."""
    return int(model._initial_epoch or given)


def start_at(model: Any, epoch: int | None) -> None:
    """Make the next fit begin with *epoch* (None: with its ``initial_epoch``).

    It then is no first epoch of a fit, and metrics are reset whenever Keras does so.
    """
    model._initial_epoch = epoch
    if model._compile_metrics is not None:
        reset_as_ever(model._compile_metrics)


def validation_of(model: Any) -> Any:
    """Iterator of the running fit's validation; None before the first validation."""
    return getattr(model, "_eval_epoch_iterator", None)


@contextlib.contextmanager
def without_memory() -> Iterator[None]:
    """Context in which new models have variables without values, for inspection only."""
    try:
        with keras.StatelessScope(initialize_variables=False):
            yield
    finally:
        # Keras 3.15 would give them their values the next time that it does so for any.
        global_state.set_global_attribute("uninitialized_variables", [])


def has_own_build(model: Any) -> bool:
    """Whether the script wrote the ``build`` of *model*."""
    return type(model).build not in (keras.Model.build, keras.Sequential.build, Functional.build)


def has_own_train_step(model: Any) -> bool:
    """Whether the script wrote the ``train_step`` of *model*."""
    return type(model).train_step is not keras.Model.train_step or "train_step" in vars(model)


def is_complete(model: Any) -> bool:
    """Whether *model* only holds layers with all their variables, and cannot be called.

    So are the models of many train steps: an encoder and a decoder, a teacher and a student.
    """
    return not has_call(model) and has_all_variables(model)


def has_call(model: Any) -> bool:
    """Whether *model* can be called."""
    return type(model).call not in (keras.Model.call, keras.layers.Layer.call)


def has_all_variables(model: Any) -> bool:
    """Whether the layers of *model* and its metrics are built, and it makes no more variables.

    A train step of the script's may call them otherwise than the model's ``call`` does.
    """
    parts = parts_of(model)
    return (
        type(model).build in (keras.Model.build, keras.layers.Layer.build)
        and bool(parts)
        and all(part.built for part in parts)
        and not unbuilt_of(model)
    )


def parts_of(model: Any) -> list[Any]:
    """Layers of *model* at any depth, without itself."""
    return list(model._flatten_layers(include_self=False))


_MADE_ONCE = (
    *(keras.Variable, tf.Variable, keras.random.SeedGenerator),
    *(keras.Layer, keras.Metric, keras.Optimizer, keras.Loss),
)


def is_made_once(value: Any) -> bool:
    """Whether *value* is a layer, a variable or the like, or some of them in a list."""
    if isinstance(value, list | tuple):
        return any(map(is_made_once, value))
    return isinstance(value, _MADE_ONCE)


def managed_attributes(thing: Any) -> frozenset[str]:
    """Names of the attributes of *thing* that Keras manages."""
    return frozenset().union(
        *(names for kind, names in _managed_by_kind().items() if isinstance(thing, kind))
    )


def set_by_fits(thing: Any) -> frozenset[str]:
    """Names of the attributes of *thing* that Keras's fit sets itself, and that no step reads."""
    return _SET_BY_FITS if isinstance(thing, keras.Model | keras.Metric) else frozenset()


_SET_BY_FITS = frozenset((
    "history", "reset_state", "stop_training", "_initial_epoch", "_eval_epoch_iterator",
    "train_function", "test_function", "predict_function",
))  # fmt: skip


@functools.cache
def _managed_by_kind() -> dict[type, frozenset[str]]:
    """Names of the attributes that Keras gives an object of its kinds, by kind."""
    named = {"name": "fresh"}  # a name that Keras makes would be missing in the script's numbering
    fresh = [kind(**named) for kind in (keras.Layer, keras.Model, keras.Loss, keras.Metric)]
    return {type(thing): frozenset(vars(thing)) | frozenset(dir(type(thing))) for thing in fresh}


@contextlib.contextmanager
def around_builds(
    context: Callable[[Any], contextlib.AbstractContextManager[None]],
) -> Iterator[None]:
    """Context in which each layer that a call builds is built in *context*, given the layer."""
    original = keras.Layer._maybe_build

    def build(layer: Any, *args: Any, **kwargs: Any) -> None:
        if layer.built:
            return
        with context(layer):
            original(layer, *args, **kwargs)

    with replaced(keras.Layer, "_maybe_build", build):
        yield
