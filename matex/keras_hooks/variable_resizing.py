"""Resizing in place of Keras's variables, and of everything that remembers their shapes.

The ``keras.Variable`` stays the same object, so layers, optimizers and other holders see the new
value; only the TensorFlow variable inside is replaced.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from matex.keras_hooks.graphs import GraphCall
from matex.keras_hooks.optimizers import optimizers_of
from matex.keras_hooks.second_moments import with_inner

__all__ = [
    "Follower",
    "Slot",
    "WeightUsers",
    "followers",
    "renew_validation",
    "resize",
    "set_input_shapes",
    "slots",
]

# Lists of an optimizer that are not one entry for each weight.
_NOT_SLOTS = {"_variables", "_trainable_variables", "_inner_optimizers", "_tracked"}

# Their momenta are the weights of which the model has averages. Keras 3.12 has none.
_AVERAGED: Any = (
    (keras.optimizers.ScheduleFreeAdamW,) if hasattr(keras.optimizers, "ScheduleFreeAdamW") else ()
)


def resize(variable: Any, value: np.ndarray) -> None:
    """Set *variable* to *value* of any shape; local, between steps.

    All get one name inside: TensorFlow takes the better part of a millisecond for each new
    pair of a name and a shape, and a weight and its slots have one shape.
    """
    old = variable.value
    with tf.init_scope():
        variable._shape = tuple(value.shape)
        variable._value = tf.Variable(
            value,
            dtype=variable.dtype,
            trainable=old.trainable,
            name="resized",
            aggregation=old.aggregation,
            synchronization=old.synchronization,
        )


class Slot(NamedTuple):
    """Slot of an optimizer for a weight: its axis i is axis ``axes[i]`` of the weight."""

    variable: Any
    weight: Any
    axes: tuple[int, ...]


def slots(optimizer: Any) -> list[Slot]:
    """Slots of a built *optimizer* for each weight: moments, averages, accumulators."""
    result: dict[int, Slot] = {}
    for one in with_inner(optimizer):
        weights = one._trainable_variables
        for name, values in vars(one).items():
            if name in _NOT_SLOTS or not isinstance(values, list) or len(values) != len(weights):
                continue
            for slot, weight in zip(values, weights, strict=True):
                axes = _axes(name, slot, weight)
                if axes:
                    result[id(slot)] = Slot(slot, weight, axes)
        for slot in one.variables:
            weight = _named_after(slot, weights)
            if id(slot) not in result and weight is not None and len(slot.shape):
                result[id(slot)] = Slot(slot, weight, tuple(range(len(slot.shape))))
    return list(result.values())


def _unknown_in(optimizer: Any) -> str:
    """Name and shape of an array of a built *optimizer* that is no weight's slot; "" if none."""
    known = {id(slot.variable) for slot in slots(optimizer)}
    for variable in (one for each in with_inner(optimizer) for one in each.variables):
        if len(variable.shape) and id(variable) not in known:
            return f"{variable.name} of shape {tuple(variable.shape)}"
    return ""


def _named_after(slot: Any, weights: Iterable[Any]) -> Any | None:
    """The one of *weights* that *slot* was made for by ``add_variable_from_reference``, if any."""
    found = [
        weight
        for weight in weights
        if slot.name.startswith(weight.path.replace("/", "_") + "_") and slot.shape == weight.shape
    ]
    return max(found, key=lambda weight: len(weight.path), default=None)


class Follower(NamedTuple):
    """Slot of an optimizer that must follow changes of its weight that the optimizer has not made.

    ``value`` is a function of the slot, and of the weight before and after the change, as arrays:
    it returns the slot that belongs to the weight after it. ``copies`` is the set of copies of
    weights to which the slot belongs, None if it is no copy.
    """

    slot: Any
    weight: Any
    value: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
    copies: list[Any] | None = None


def followers(model: Any) -> list[Follower]:
    """Optimizer slots from which later updates of *model* set weights: moving averages."""
    found: list[Follower] = []
    for one in (each for optimizer in optimizers_of(model) for each in with_inner(optimizer)):
        copies = [getattr(one, "_model_variables_moving_average", None)]
        if isinstance(one, _AVERAGED) and one.built:
            copies.append(one._momentums)
        for values in filter(None, copies):
            pairs = zip(values, one._trainable_variables, strict=True)
            found += [Follower(*pair, _moved, values) for pair in pairs if pair[0] is not None]
        if isinstance(one, keras.optimizers.Ftrl) and one.built:
            of_each = zip(one._linears, one._accumulators, one._trainable_variables, strict=True)
            found += [
                Follower(z, weight, _inverted(one, n)) for z, n, weight in of_each if z is not None
            ]
    return found


def _moved(copy: np.ndarray, before: np.ndarray, after: np.ndarray) -> np.ndarray:
    return np.asarray(copy + (after - before))


def _inverted(
    ftrl: Any, accumulator: Any
) -> Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]:
    """Function that returns the sum z of which the next update makes the weight *after*.

    Ftrl sets a weight to (clip(z, -l1, l1) - z) / q, whatever it was.
    """
    rate = np.float64(ftrl.learning_rate)
    power = np.asarray(accumulator.numpy(), np.float64) ** -ftrl.learning_rate_power
    q = power / rate + 2 * ftrl.l2_regularization_strength + ftrl.beta / rate
    l1 = ftrl.l1_regularization_strength

    def value(z: np.ndarray, before: np.ndarray, after: np.ndarray) -> np.ndarray:
        wanted = np.where(after == 0, np.clip(z, -l1, l1), -after * q - np.sign(after) * l1)
        return np.where(after == before, z, wanted).astype(z.dtype)

    return value


def _axes(name: str, slot: Any, weight: Any) -> tuple[int, ...]:
    if not isinstance(slot, keras.Variable) or not len(slot.shape):
        return ()
    every = tuple(range(len(weight.shape)))
    if tuple(slot.shape) == tuple(weight.shape):
        return every
    # Adafactor keeps row and column means of the last two axes.
    if name in ("_r", "_c"):
        return every[:-1] if name == "_r" else (*every[:-2], every[-1])
    choices = itertools.combinations(every, len(slot.shape))
    found = [some for some in choices if slot.shape == tuple(weight.shape[one] for one in some)]
    return found[0] if len(found) == 1 else ()  # as values of a unit, not those of a square matrix


class WeightUsers:
    """Models of this process that contain some of *variables*, and their optimizers. Local.

    An encoder that is a model of its own goes on with the layers that it shares with the
    autoencoder that is trained.

    Args:
        model: model that contains all of them.
        variables: weights that are resized.
    """

    def __init__(self, model: Any, variables: Iterable[Any]) -> None:
        known = set(map(id, variables))
        others = [
            one
            for one in gc.get_objects()
            if issubclass(type(one), keras.Model)
            and getattr(one, "built", False)
            and not known.isdisjoint(map(id, one.variables))
        ]
        self._models = list({id(one): one for one in [model, *others]}.values())
        found = [one for each in self._models for one in optimizers_of(each) if one.built]
        self._optimizers = list({id(one): one for one in found}.values())

    def slots(self) -> list[Slot]:
        """The slots of all optimizers."""
        return [slot for optimizer in self._optimizers for slot in slots(optimizer)]

    def unknown_slot(self) -> str:
        """Name and shape of an array of an optimizer that is no weight's slot; "" if none."""
        return next(filter(None, map(_unknown_in, self._optimizers)), "")

    @contextlib.contextmanager
    def renewed(self) -> Iterator[None]:
        """Context of resizing; at its end optimizers and traced models are renewed."""
        keys = [(optimizer, _keys(optimizer)) for optimizer in self._optimizers]
        yield
        for optimizer, before in keys:
            _rekey(optimizer, before)
        for model in self._models:
            _drop_functions(model)


def _keys(optimizer: Any) -> list[tuple[Any, Any]]:
    """Each weight of *optimizer* with its key; called before :func:`resize`."""
    every = with_inner(optimizer)
    return [(w, optimizer._var_key(w)) for one in every for w in one._trainable_variables]


def _rekey(optimizer: Any, before: list[tuple[Any, Any]]) -> None:
    """Restore *optimizer*'s map of its weights; *before* is from :func:`_keys`."""
    renamed = {old: optimizer._var_key(weight) for weight, old in before}
    for one in with_inner(optimizer):
        for name in ("_trainable_variables_indices", "_var_to_optimizer_idx"):
            known = getattr(one, name, None)
            if known:
                setattr(one, name, {renamed.get(key, key): known[key] for key in known})
        if getattr(one, "_exclude_from_weight_decay", None):
            kept = one._exclude_from_weight_decay
            one._exclude_from_weight_decay = {renamed.get(key, key) for key in kept}
        if hasattr(one, "_exclude_from_weight_decay_cache"):
            one._exclude_from_weight_decay_cache = {}


def set_input_shapes(call: GraphCall) -> None:
    """Make the layer of *call* expect, and be rebuilt with, the shapes of its tensors."""
    layer = call.operation
    spec = getattr(layer, "input_spec", None)
    if isinstance(spec, keras.layers.InputSpec) and spec.axes and len(call.inputs) == 1:
        spec.axes = {axis: call.inputs[0].shape[axis] for axis in spec.axes}
    given = getattr(layer, "_build_shapes_dict", None)
    if not given:
        return
    by_name = {f"{name}_shape": value for name, value in call.kwargs.items()}
    others = [value for name, value in by_name.items() if name not in given]
    in_order = _shapes_of((call.args, others))
    layer._build_shapes_dict = {
        name: _renewed(value, _shapes_of(by_name[name]) if name in by_name else in_order)
        for name, value in given.items()
    }


def _shapes_of(arguments: Any) -> Iterator[tuple[Any, ...]]:
    return (
        tuple(leaf.shape)
        for leaf in keras.tree.flatten(arguments)
        if isinstance(leaf, keras.KerasTensor)
    )


def _renewed(value: Any, shapes: Iterator[tuple[Any, ...]]) -> Any:
    if value is None:
        return None
    if isinstance(value, tuple) and all(n is None or isinstance(n, int) for n in value):
        return next(shapes, value)
    if isinstance(value, list | tuple):
        if all(n is None or isinstance(n, int) for n in value):
            return list(next(shapes, tuple(value)))
        return type(value)(_renewed(part, shapes) for part in value)
    return value


def renew_validation(model: Any) -> None:
    """Make the running fit's validation be traced again, at its next use."""
    iterator: Any = getattr(model, "_eval_epoch_iterator", None)
    if hasattr(iterator, "retrace"):
        iterator.retrace()


def _drop_functions(model: Any) -> None:
    """Make *model* be traced again; for training at once, if it was training."""
    trains = model.train_function is not None
    model.test_function = None
    model.predict_function = None
    model.train_function = None
    if trains:
        model.make_train_function(force=True)
