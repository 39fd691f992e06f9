"""Construction of a model's variables, metrics and losses before Keras makes them."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from matex.errors import LateVariable, NotShareable, Unsupported
from matex.keras_hooks.models import (
    around_builds,
    has_all_variables,
    has_call,
    has_own_build,
    has_own_train_step,
    is_complete,
    is_graph,
    parts_of,
)
from matex.keras_hooks.optimizers import build_for, noted_setting, optimizers_of
from matex.keras_hooks.unbuilt_metrics import (
    is_chosen_by_shapes,
    lazy_metrics_of,
    pass_over_reset,
    set_aside,
    unbuilt_of,
)

__all__ = ["build", "build_optimizer", "free_of_rows", "was_given"]


# It returns each optimizer that the step has called, and the variables that it was given.
Follow = Callable[[], list[tuple[Any, list[Any]]]]

_given: weakref.WeakSet[Any] = weakref.WeakSet()  # optimizers, see was_given


def build(
    model: Any,
    data: Any,
    *,
    for_fit: bool = False,
    follow: Follow | None = None,
    within: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext,
) -> None:
    """Create all variables of *model*, its metrics and its optimizer from a batch's shapes.

    A ``build`` of the script's own runs in a trace, as in plain Keras: it may do what Keras's
    symbolic call, which makes variables without values, does not allow.

    Args:
        data: batch that ``train_step`` gets, or ``tf.TensorSpec`` in its place.
        for_fit: whether Keras is about to reset the metrics of a fit; off by default. Where they
            have no variables yet that does nothing, so those that are made here keep what they
            begin with, which need not be what they are reset to.
        follow: function that goes through the script's own ``train_step`` on *data*. Keras makes
            metrics and losses by the targets and predictions that the step gives them, which need
            not be those of the data: labels may be smoothed or mixed in it. It returns each
            optimizer that the step has called, and the variables given to it. None by default.
        within: function that returns the context of the symbolic call; by default one that does
            nothing.

    Raises:
        NotShareable: only a custom train step can call the model, or choose its metrics.
        LateVariable: its first step makes a variable of another one's value.
    """
    if model.optimizer is None:
        raise Unsupported(
            "fit on several ranks wants a model compiled with an optimizer. Received: none"
        )
    metrics = model._compile_metrics
    is_new = metrics is not None and not metrics.built
    try:
        # An eager step would also change what its build has just made.
        if follow is not None and _is_built_by_trace(model) and not model.run_eagerly:
            try:
                _build_as_given(follow())
            except LateVariable:
                raise
            except NotShareable:  # the trace that counts says why, if it fails, too
                pass
        by_step = has_own_train_step(model) and unbuilt_of(model)
        if follow is not None and (by_step or lazy_metrics_of(model)):
            _make_as_followed(model, data, follow)
        steps_without_call = not has_call(model) and has_own_train_step(model)
        if not is_complete(model) and not (follow is not None and steps_without_call):
            undone = around_builds(_unbuilt_on_error)
            with noted_setting(model.optimizer), within(), undone:
                model._symbolic_build(data_batch=data)
        # Some layers are called in training only, or by the train step.
        if follow is not None and not all(part.built for part in parts_of(model)):
            follow()
    # Keras's message for any error in call(): since 3.15 a ValueError is kept. If it is the
    # script's mistake, its train step raises it again, as in plain Keras.
    except (RuntimeError, ValueError) as error:
        if not (has_own_train_step(model) and has_all_variables(model)):
            raise NotShareable(
                f"{type(model).__name__} cannot be built from its data before training"
            ) from error
    if for_fit and is_new:
        pass_over_reset(metrics)
    build_optimizer(model)


def _build_as_given(given: list[tuple[Any, list[Any]]]) -> None:
    for optimizer, variables in given:
        if not optimizer.built:
            build_for(optimizer, variables)
            _given.add(optimizer)


def was_given(optimizer: Any) -> bool:
    """Whether *optimizer* was built for the variables that a ``train_step`` gives it."""
    return optimizer in _given


def _is_built_by_trace(model: Any) -> bool:
    """Whether variables of *model* or its optimizer are made in the order of its own code.

    A step of the script's may call layers in another order than ``call``, in which initializers
    draw other numbers; and it may give its optimizer some of the variables.
    """
    if not has_own_train_step(model):
        return has_own_build(model) and not model.built
    layers_are_built = model.built and all(part.built for part in parts_of(model))
    return not (layers_are_built and model.optimizer.built)


def _make_as_followed(model: Any, data: Any, follow: Follow) -> None:
    """Make metrics and losses of *model* where its ``train_step`` first uses them.

    Raises:
        NotShareable: the step fails before, and they are chosen by what it gives them.
    """
    if has_call(model) and not all(part.built for part in parts_of(model)):
        with set_aside(unbuilt_of(model)):
            model._symbolic_build(data_batch=data)
    try:
        follow()
    except NotShareable:
        if any(map(is_chosen_by_shapes, unbuilt_of(model))):
            raise


def build_optimizer(model: Any, variables: list[Any] | None = None) -> None:
    """Create the variables of *model*'s optimizer, if it is the only one.

    If there are others it may be Keras's default, which the script does not use; the optimizers
    that it uses get their variables when the step is traced.

    Args:
        variables: variables that the step gives it; None, the default, for all that train.
    """
    if not model.optimizer.built and len(optimizers_of(model)) == 1:
        build_for(model.optimizer, model.trainable_variables if variables is None else variables)


def free_of_rows() -> contextlib.AbstractContextManager[None]:
    """Context in which an eager call builds models for any number of rows, not for its own.

    A Sequential takes its input's shape from the call. One that cannot be built stays unbuilt.
    """
    return around_builds(_free_of_rows)


@contextlib.contextmanager
def _free_of_rows(layer: Any) -> Iterator[None]:
    if not is_graph(layer):
        yield
        return
    build = layer.build

    def build_freely(input_shape: Any = None) -> None:
        is_shape = isinstance(input_shape, tuple | list) and isinstance(input_shape[0], int)
        build((None, *input_shape[1:]) if is_shape else input_shape)

    object.__setattr__(layer, "build", build_freely)
    try:
        with _unbuilt_on_error(layer):
            yield
    finally:
        object.__setattr__(layer, "build", build)


@contextlib.contextmanager
def _unbuilt_on_error(layer: Any) -> Iterator[None]:
    """Context of the building of *layer*, in which a Sequential gets a layer for its input."""
    layers = layer._layers
    try:
        yield
    finally:
        if is_graph(layer) and not layer.built:
            layer._layers = layers
