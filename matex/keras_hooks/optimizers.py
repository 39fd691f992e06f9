"""What matex needs of Keras's optimizers, and when they may change weights."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import keras

__all__ = [
    "is_recording",
    "is_updating",
    "learning_rate_variable",
    "recording",
    "scales_loss",
    "set_learning_rate",
    "state_of",
    "updates_made",
    "updating",
]

_updating = 0
_recording = 0


def is_updating() -> bool:
    """Whether optimizers may change weights now."""
    return _updating > 0


def is_recording() -> bool:
    """Whether only a recorded optimizer may be called now."""
    return _recording > 0


@contextlib.contextmanager
def updating() -> Iterator[None]:
    """Around the one place where optimizers may change weights."""
    global _updating  # noqa: PLW0603 - a property of the process, as the optimizers' class is
    _updating += 1
    try:
        yield
    finally:
        _updating -= 1


@contextlib.contextmanager
def recording() -> Iterator[None]:
    """Around a train step whose one optimizer is being recorded: no other may change weights.

    Raises:
        NotShareable: another did.
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


def state_of(optimizer: Any) -> list[Any]:
    """The variables of *optimizer* and the weights it changes."""
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    return [*optimizer.variables, *inner._trainable_variables]


def scales_loss(optimizer: Any) -> bool:
    """Whether *optimizer* expects infinite gradients now and then, and deals with them."""
    return isinstance(optimizer, keras.optimizers.LossScaleOptimizer)


def updates_made(optimizer: Any) -> int | None:
    """How many updates *optimizer* has made; None where it may leave some out by itself."""
    # Not ``iterations``, which counts every so many where gradients are accumulated.
    return None if scales_loss(optimizer) else int(optimizer._iterations.numpy())
