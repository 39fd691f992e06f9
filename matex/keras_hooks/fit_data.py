"""Inspection of the arguments of fit, with or without matex's runtime."""

from __future__ import annotations

import functools
import weakref
from typing import Any

import keras
from keras.src.backend.tensorflow import trainer as trainer_module

from matex.keras_hooks.building import build
from matex.keras_hooks.models import validation_of
from matex.replacing import replace

__all__ = ["build_for_fit", "fit_data", "forget_best_weights", "forget_fit", "watch_fits"]

_newest: dict[str, Any] = {}
_evaluated: weakref.WeakKeyDictionary[Any, dict[str, Any]] = weakref.WeakKeyDictionary()


def watch_fits() -> None:
    """Remember the data and callbacks of the newest fit from now on. Local."""
    original = trainer_module.TFEpochIterator
    if hasattr(original, "_matex_watched"):
        return

    def watched(*args: Any, **kwargs: Any) -> Any:
        iterator = original(*args, **kwargs)
        if "class_weight" in kwargs:
            _newest["training"] = kwargs
            _newest["iterator"] = iterator
        else:
            _evaluated[iterator] = kwargs
        return iterator

    watched._matex_watched = original  # type: ignore[attr-defined]
    if hasattr(original, "_matex"):
        watched._matex = True  # type: ignore[attr-defined]
    replace(trainer_module, "TFEpochIterator", watched)
    _watch_callbacks(keras.callbacks.CallbackList)


def _watch_callbacks(container: type) -> None:
    begin = container.on_train_begin  # type: ignore[attr-defined]

    @functools.wraps(begin)
    def begun(self: Any, logs: Any = None) -> None:
        _newest["callbacks"] = self.callbacks
        begin(self, logs)

    replace(container, "on_train_begin", begun)


def fit_data(model: Any) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """The arguments (x, y, sample_weight, ...) of the fit of *model*, and of its validation.

    Callbacks may evaluate and predict other data meanwhile.
    """
    iterator = validation_of(model)
    validation = None if iterator is None else _evaluated.get(iterator)
    return _newest.get("training"), validation


def build_for_fit(model: Any) -> None:
    """Create the variables of *model* from the data of its fit, if it has none yet. Local.

    Plain Keras makes them in the first step, after the callbacks' ``on_train_begin``.
    """
    iterator = _newest.get("iterator")
    if iterator is not None and not model.built:
        build(model, iterator._distributed_dataset.element_spec)


def forget_best_weights() -> None:
    """Make EarlyStopping forget its best weights, because shapes have changed. Local."""
    for callback in _newest.get("callbacks", ()):
        if isinstance(callback, keras.callbacks.EarlyStopping) and callback.restore_best_weights:
            callback.best = callback.best_weights = None


def forget_fit() -> None:
    """Let go of the data."""
    _newest.clear()
