"""Metrics and losses that lack variables, which Keras makes when they are first used."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from matex.keras_hooks.metrics import replaced_methods
from matex.keras_hooks.tensors import flatten

__all__ = [
    "is_chosen_by_shapes",
    "lazy_metrics_of",
    "pass_over_reset",
    "reset_as_ever",
    "set_aside",
    "unbuilt_of",
    "until_metrics_are_made",
]

_RESET = "reset_state"
_CHOSEN_BY_SHAPES = ("accuracy", "acc", "crossentropy", "ce")


class _MadeError(BaseException):
    """The end of a step that was run for its metrics: no error, which the step might catch."""


@contextlib.contextmanager
def until_metrics_are_made(model: Any) -> Iterator[None]:
    """Context of a step that runs eagerly, and ends where the model's metrics have variables.

    They have then counted nothing yet.
    """
    compiled = model._compile_metrics
    without = [] if compiled is None or compiled.built else [compiled]
    lazy = lazy_metrics_of(model)

    def replaced_by(name: str) -> Callable[[Any], Callable[..., None]]:
        def replacing(metric: Any) -> Callable[..., None]:
            original = getattr(metric, name)

            def made(*args: Any, **kwargs: Any) -> None:
                original(*args, **kwargs)
                if all(each.built for each in without) and not any(map(_is_lazy, lazy)):
                    raise _MadeError

            return made

        return replacing

    try:
        with (
            replaced_methods(without, "build", replaced_by("build")),
            replaced_methods(lazy, "update_state", replaced_by("update_state")),
            contextlib.suppress(_MadeError),
        ):
            yield
    finally:
        for metric in lazy:
            metric.reset_state()


def is_chosen_by_shapes(lazy: Any) -> bool:
    """Whether a name that ``compile`` was given for *lazy* stands for several metrics or losses."""
    kept = ("_user_loss", "_user_metrics", "_user_weighted_metrics")
    names = flatten([getattr(lazy, name, None) for name in kept])
    return any(str(name).lower() in _CHOSEN_BY_SHAPES for name in names)


def unbuilt_of(model: Any) -> list[Any]:
    """Metrics and losses that ``compile`` was given and Keras has not made yet."""
    lazy = (model._compile_loss, model._compile_metrics)
    return [one for one in lazy if one is not None and not one.built]


def lazy_metrics_of(model: Any) -> list[Any]:
    """Metrics of the script's own, or of its layers, that lack variables.

    They make them when they are first updated, by the shapes that they are then given.
    """
    compiled = model._compile_metrics
    return [metric for metric in model.metrics if metric is not compiled and _is_lazy(metric)]


def _is_lazy(metric: Any) -> bool:
    return getattr(metric, "_built", True) is False or not metric.variables


@contextlib.contextmanager
def set_aside(lazy: list[Any]) -> Iterator[None]:
    """Context in which Keras takes *lazy* metrics and losses for built."""
    for one in lazy:
        one.built = True
    try:
        yield
    finally:
        for one in lazy:
            one.built = False


def pass_over_reset(metrics: Any) -> None:
    """Skip the next reset of *metrics* if it is that of the fit's first epoch."""
    object.__setattr__(metrics, _RESET, lambda: reset_as_ever(metrics))


def reset_as_ever(metrics: Any) -> None:
    """Make *metrics* follow every reset again."""
    if _RESET in vars(metrics):
        object.__delattr__(metrics, _RESET)
