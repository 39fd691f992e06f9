"""Variables of an optimizer that are never negative: second moments and sums of squares.

An optimizer divides by their root, so a mean of models must not make one negative.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

__all__ = ["has_named_slots", "second_moments", "with_inner"]

# Attributes of Keras's optimizers with such variables.
_NAMES = (
    "_velocities",  # Adam and its kin, RMSprop
    "_velocity_hats",
    "adam_velocities",  # Muon
    "_accumulators",  # Adagrad, Ftrl
    "_accumulated_grads",  # Adadelta
    "_accumulated_delta_vars",
    "_u",  # Adamax
    "_r",  # Adafactor
    "_c",
    "_v",
)


def second_moments(optimizer: Any) -> list[Any]:
    """Variables that are never negative of a built *optimizer* and of those inside it. Local."""
    found = [getattr(one, name, None) for one in with_inner(optimizer) for name in _NAMES]
    return [variable for held in found for variable in held or () if variable is not None]


def has_named_slots(optimizer: Any) -> bool:
    """Whether :func:`second_moments` knows *optimizer*: it is Keras's, or made of one of Keras's.

    Of others it is not known what their attributes are. Local.
    """
    return all(
        any(_is_known(kind.__module__) for kind in type(one).__mro__)
        for one in with_inner(optimizer)
    )


def _is_known(module: str) -> bool:
    package, _, name = module.rpartition(".")
    of_keras = package == "keras.src.optimizers" and name not in ("optimizer", "base_optimizer")
    return of_keras or module == "matex.optimizers"


def with_inner(optimizer: Any) -> Iterator[Any]:
    """*optimizer* and the optimizers inside it. Local."""
    yield optimizer
    inner = [getattr(optimizer, "inner_optimizer", None), *getattr(optimizer, "optimizers", ())]
    for one in inner:
        if one is not None:
            yield from with_inner(one)
