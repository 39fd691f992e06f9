"""Access to Keras's optimizers: their traits, learning rates and variables."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import keras
import numpy as np
from tensorflow.python.ops.resource_variable_ops import ResourceVariable

from matex.keras_hooks.second_moments import with_inner
from matex.keras_hooks.tensors import outside_functions
from matex.replacing import replaced

__all__ = [
    "OptimizerTraits",
    "build_for",
    "learning_rate_variable",
    "nesterov_momentum",
    "noted_setting",
    "optimizer_kinds",
    "optimizers_of",
    "scaled_learning_rate",
    "set_learning_rate",
    "setting_when_built",
    "state_of",
    "traits_of",
    "updates_made",
    "zeros_like",
]

_setting: weakref.WeakSet[Any] = weakref.WeakSet()


def learning_rate_variable(optimizer: Any) -> Any | None:
    """Learning rate variable that a callback may change; None with a schedule."""
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    rate = getattr(inner, "_learning_rate", None)
    return rate if isinstance(rate, keras.Variable) else None


def set_learning_rate(optimizer: Any, rate: Any) -> None:
    """Follow the leader's *rate*, a float scalar tensor."""
    variable = learning_rate_variable(optimizer)
    if variable is not None:
        # "+ 0 * old" is arithmetic: a plain assign would alias the exchange's buffer.
        variable.assign(keras.ops.cast(rate, variable.dtype) + 0 * variable)


@contextlib.contextmanager
def scaled_learning_rate(optimizer: Any, factor: Any | None) -> Iterator[None]:
    """Context of an update at *factor* (a float scalar tensor) times the learning rate.

    Before and after it rate and velocities are those of factor 1: a schedule is the script's own
    wherever it is printed or saved. The velocity of SGD contains the rate: kept so, it needs no
    correction when the factor changes. None changes nothing.
    """
    with contextlib.ExitStack() as stack:
        for each in [] if factor is None else _with_own_rates(optimizer):
            stack.enter_context(_scaled_rate(each, factor))
        yield


class ScaledSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """A *schedule* times a *factor*, a float scalar tensor; in place for the time of an update."""

    def __init__(self, schedule: Callable[[Any], Any], factor: Any) -> None:
        self._schedule = schedule
        self._factor = factor

    def __call__(self, step: Any) -> Any:
        rate = keras.ops.convert_to_tensor(self._schedule(step))
        return rate * keras.ops.cast(self._factor, rate.dtype)


def _with_own_rates(optimizer: Any) -> list[Any]:
    """Optimizers inside *optimizer*, or itself, that have a learning rate."""
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    several = isinstance(inner, keras.optimizers.MultiOptimizer)
    return list(inner.optimizers) if several else [inner]


@contextlib.contextmanager
def _scaled_rate(optimizer: Any, factor: Any) -> Iterator[None]:
    """Context in which *optimizer* has a scaled rate, with velocities to match."""
    velocities = _velocities_with_rate(optimizer)
    for variable in velocities:
        variable.assign(variable * keras.ops.cast(factor, variable.dtype))
    is_number = learning_rate_variable(optimizer) is not None
    with (_scaled_number if is_number else _scaled_schedule)(optimizer, factor):
        yield
    for variable in velocities:
        variable.assign(variable / keras.ops.cast(factor, variable.dtype))


@contextlib.contextmanager
def _scaled_number(optimizer: Any, factor: Any) -> Iterator[None]:
    rate = optimizer._learning_rate
    before = rate + keras.ops.zeros_like(rate)
    rate.assign(rate * keras.ops.cast(factor, rate.dtype))
    yield
    rate.assign(before)


@contextlib.contextmanager
def _scaled_schedule(optimizer: Any, factor: Any) -> Iterator[None]:
    own = optimizer._learning_rate  # a schedule, or a function without arguments
    is_schedule = isinstance(own, keras.optimizers.schedules.LearningRateSchedule)
    optimizer._learning_rate = ScaledSchedule(own if is_schedule else lambda _: own(), factor)
    try:
        yield
    finally:
        optimizer._learning_rate = own


def _velocities_with_rate(optimizer: Any) -> list[Any]:
    if not optimizer.built:  # one of several, which has no variables
        return []
    of_sgd = isinstance(optimizer, keras.optimizers.SGD)
    if of_sgd or getattr(optimizer, "velocities_have_rate", False):
        return [v for v in optimizer.momentums if v is not None]
    if isinstance(optimizer, keras.optimizers.RMSprop) and optimizer.momentum > 0:
        return list(optimizer._momentums)
    return []


def nesterov_momentum(optimizer: Any) -> float:
    """Momentum of an SGD whose velocities are its first slots and look ahead; else 0."""
    if not isinstance(optimizer, keras.optimizers.SGD) or not optimizer.nesterov:
        return 0.0
    others = optimizer.use_ema or optimizer.gradient_accumulation_steps
    return 0.0 if others else float(optimizer.momentum)


def state_of(optimizer: Any) -> list[Any]:
    """The variables of *optimizer* and the weights it changes."""
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    return [*optimizer.variables, *inner._trainable_variables]


def optimizers_of(model: Any) -> list[Any]:
    """Optimizers among the attributes of *model*, also in lists and dicts, its own first."""
    own = getattr(model, "optimizer", None)  # none where fit was refused, uncompiled
    found = [] if own is None else [own]
    for value in vars(model).values():
        inside = value.values() if isinstance(value, dict) else value
        several = inside if isinstance(value, dict | list | tuple) else [value]
        found += [one for one in several if isinstance(one, keras.optimizers.Optimizer)]
    return list({id(one): one for one in found}.values())


class OptimizerTraits(NamedTuple):
    """Properties of an optimizer's treatment of gradients.

    Args:
        scales_loss: whether it expects and handles infinite gradients.
        takes_sums: whether it treats slices of one index like their sum.
        sets_when_built: whether it set variables when it was built here, such as copies of
            weights. Keras builds it in the step that it traces, so plain Keras sets them anew in
            each.
        forgets_weights: whether it makes weights of its slots alone, whatever they were before.
    """

    scales_loss: bool
    takes_sums: bool
    sets_when_built: bool = False
    forgets_weights: bool = False


def traits_of(optimizer: Any) -> OptimizerTraits:
    """The traits of an optimizer of Keras. Local."""
    scales_loss = isinstance(optimizer, keras.optimizers.LossScaleOptimizer)
    if type(optimizer) is not keras.optimizers.SGD:
        return OptimizerTraits(
            scales_loss,
            takes_sums=False,
            sets_when_built=optimizer in _setting,
            forgets_weights=any(
                isinstance(one, keras.optimizers.Ftrl) for one in with_inner(optimizer)
            ),
        )
    clips = (optimizer.clipnorm, optimizer.global_clipnorm, optimizer.clipvalue)
    return OptimizerTraits(scales_loss, takes_sums=not any(clips))


def setting_when_built(model: Any) -> list[str]:
    """Kinds of *model*'s optimizers that set variables when they were built here."""
    some = [one for one in optimizers_of(model) if traits_of(one).sets_when_built]
    return sorted({type(one).__name__ for one in some})


def build_for(optimizer: Any, variables: list[Any]) -> None:
    """Create *optimizer*'s variables for *variables*, in no graph; note if it sets any. Local."""
    with outside_functions(), noted_setting(optimizer):
        optimizer.build(variables)


@contextlib.contextmanager
def noted_setting(optimizer: Any) -> Iterator[None]:
    """Context in which *optimizer* is built; notes whether it sets variables."""

    def noting(original: Callable[..., Any]) -> Callable[..., Any]:
        def assign(variable: Any, *args: Any, **kwargs: Any) -> Any:
            _setting.add(optimizer)
            return original(variable, *args, **kwargs)

        return assign

    with contextlib.ExitStack() as stack:
        for name in ("assign", "assign_add", "assign_sub"):
            new = noting(getattr(ResourceVariable, name))
            stack.enter_context(replaced(ResourceVariable, name, new))
        yield


def updates_made(optimizer: Any) -> int | None:
    """Number of updates that *optimizer* has made; None if it may skip some itself."""
    # Not ``iterations``, which counts accumulated gradients only every so many steps.
    return None if traits_of(optimizer).scales_loss else int(optimizer._iterations.numpy())


def optimizer_kinds() -> dict[str, type]:
    """Keras's optimizers by their names in lower case, without wrappers."""
    unfit = ("optimizer", "lossscaleoptimizer", "multioptimizer")
    return {
        name.lower(): kind
        for name, kind in vars(keras.optimizers).items()
        if isinstance(kind, type)
        and issubclass(kind, keras.optimizers.Optimizer)
        and name.lower() not in unfit
    }


def zeros_like(variables: list[Any], dtype: np.dtype) -> list[Any]:
    """Variables of the shapes of *variables*, of *dtype*, and 0."""
    return [
        keras.Variable(np.zeros(each.shape), dtype=dtype.name, name="zeros") for each in variables
    ]
