"""The loss scale of ``mixed_float16`` in a trial of a step, whose gradients should not overflow."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from matex.keras_hooks.optimizers import traits_of

__all__ = ["lowered_loss_scales"]

_FACTOR = 1 / 16


@contextlib.contextmanager
def lowered_loss_scales(optimizers: Iterable[Any]) -> Iterator[Callable[[], bool]]:
    """Context in which the loss scales of *optimizers* can be lowered. Local.

    Keras begins with a scale at which gradients of a first step often overflow, and such gradients
    prove nothing. The context yields a function that lowers the scales by a factor and returns
    whether any was above 1; afterwards they are what they were.
    """
    scaling = [one for one in optimizers if traits_of(one).scales_loss and one.built]
    scales = [optimizer.dynamic_scale for optimizer in scaling]
    before = [scale.numpy() for scale in scales]

    def lower() -> bool:
        high = [scale for scale in scales if scale.numpy() > 1]
        for scale in high:
            scale.assign(scale.numpy() * _FACTOR)
        return bool(high)

    try:
        yield lower
    finally:
        for scale, value in zip(scales, before, strict=True):
            scale.assign(value)
