"""Access to Keras's optimizers, and limits on when they may change weights."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import keras

__all__ = [
    "in_place_of_apply",
    "is_recording",
    "is_updating",
    "learning_rate_variable",
    "nesterov_momentum",
    "optimizers_of",
    "recording",
    "replaced_apply",
    "scaled_learning_rate",
    "scales_loss",
    "set_learning_rate",
    "state_of",
    "updates_made",
    "updating",
]

Apply = Callable[[Any, list[Any], Any], None]

_updating = 0
_recording = 0
_in_its_place: Apply | None = None


def in_place_of_apply() -> Apply | None:
    """The function that is called instead of every optimizer's ``apply`` now, if there is one."""
    return _in_its_place


@contextlib.contextmanager
def replaced_apply(apply: Apply) -> Iterator[None]:
    """Context in which *apply* is called instead of the ``apply`` of every optimizer.

    Args:
        apply: function of the optimizer, its gradients, and its variables or None.
    """
    global _in_its_place  # noqa: PLW0603 - a property of the process, as the optimizers' class is
    before, _in_its_place = _in_its_place, apply
    try:
        yield
    finally:
        _in_its_place = before


def is_updating() -> bool:
    """Whether optimizers may change weights now."""
    return _updating > 0


def is_recording() -> bool:
    """Whether only a recorded optimizer may be called now."""
    return _recording > 0


@contextlib.contextmanager
def updating() -> Iterator[None]:
    """Context of the one place where optimizers may change weights."""
    global _updating  # noqa: PLW0603 - a property of the process, as the optimizers' class is
    _updating += 1
    try:
        yield
    finally:
        _updating -= 1


@contextlib.contextmanager
def recording() -> Iterator[None]:
    """Context of a train step whose one optimizer is being recorded: no other may change weights.

    Raises:
        SeveralUpdatesFound: another did.
    """
    global _recording  # noqa: PLW0603 - a property of the process, as the optimizers' class is
    _recording += 1
    try:
        yield
    finally:
        _recording -= 1


def learning_rate_variable(optimizer: Any) -> Any | None:
    """The learning rate where a callback may change it, None where a schedule rules."""
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

    Before and after it rate and velocities are those of factor 1. The velocity of
    SGD contains the rate: kept so, it needs no correction when the factor changes.
    None changes nothing.
    """
    rate = learning_rate_variable(optimizer)
    if factor is None or rate is None:
        yield
        return
    velocities = _velocities_with_rate(optimizer)
    before = rate + keras.ops.zeros_like(rate)
    for variable in (rate, *velocities):
        variable.assign(variable * keras.ops.cast(factor, variable.dtype))
    yield
    rate.assign(before)
    for variable in velocities:
        variable.assign(variable / keras.ops.cast(factor, variable.dtype))


def _velocities_with_rate(optimizer: Any) -> list[Any]:
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    if isinstance(inner, keras.optimizers.SGD) or getattr(inner, "velocities_have_rate", False):
        return [v for v in inner.momentums if v is not None]
    if isinstance(inner, keras.optimizers.RMSprop) and inner.momentum > 0:
        return list(inner._momentums)
    return []


def nesterov_momentum(optimizer: Any) -> float:
    """The momentum of an SGD whose velocities are its first slots and look ahead; else 0."""
    if not isinstance(optimizer, keras.optimizers.SGD) or not optimizer.nesterov:
        return 0.0
    others = optimizer.use_ema or optimizer.gradient_accumulation_steps
    return 0.0 if others else float(optimizer.momentum)


def state_of(optimizer: Any) -> list[Any]:
    """The variables of *optimizer* and the weights it changes."""
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    return [*optimizer.variables, *inner._trainable_variables]


def optimizers_of(model: Any) -> list[Any]:
    """The optimizers that *model* has as attributes, alone or in lists and dicts, its own first."""
    own = getattr(model, "optimizer", None)  # none where fit was refused, uncompiled
    found = [] if own is None else [own]
    for value in vars(model).values():
        inside = value.values() if isinstance(value, dict) else value
        several = inside if isinstance(value, dict | list | tuple) else [value]
        found += [one for one in several if isinstance(one, keras.optimizers.Optimizer)]
    return list({id(one): one for one in found}.values())


def scales_loss(optimizer: Any) -> bool:
    """Whether *optimizer* expects infinite gradients now and then, and deals with them."""
    return isinstance(optimizer, keras.optimizers.LossScaleOptimizer)


def updates_made(optimizer: Any) -> int | None:
    """Number of updates that *optimizer* has made; None where it may leave some out by itself."""
    # Not ``iterations``, which counts every so many where gradients are accumulated.
    return None if scales_loss(optimizer) else int(optimizer._iterations.numpy())
