"""Insertion of a runtime between Keras and its TensorFlow trainer.

Each replacement is looked up again afterwards, and every later fit checks that it
still stands: a hook that did not take would let every rank train alone in silence.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import keras
import tensorflow as tf
from keras.src.backend.tensorflow import trainer as trainer_module
from keras.src.optimizers import base_optimizer

from matex.errors import HooksError, SeveralUpdatesFound
from matex.keras_hooks import early_optimizers, permitted_updates
from matex.keras_hooks.data import leave_autotuning
from matex.keras_hooks.versions import TESTED, outside
from matex.replacing import replace

__all__ = ["TrainerHooks", "attach", "untested", "verify"]

_attached: TrainerHooks | None = None


class TrainerHooks(Protocol):
    """Functions of a runtime that Keras calls in place of its own."""

    def fit(self, original: Callable[..., Any], model: Any, *args: Any, **kwargs: Any) -> Any: ...
    def evaluate(
        self, original: Callable[..., Any], model: Any, *args: Any, **kwargs: Any
    ) -> Any: ...
    def data(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any: ...
    def predict(
        self, original: Callable[..., Any], model: Any, *args: Any, **kwargs: Any
    ) -> Any: ...
    def train_on_batch(
        self, original: Callable[..., Any], model: Any, *args: Any, **kwargs: Any
    ) -> Any: ...
    def train_function(self, original: Callable[..., Any], model: Any) -> Callable[..., Any]: ...
    def test_function(self, original: Callable[..., Any], model: Any) -> Callable[..., Any]: ...
    def predict_function(self, original: Callable[..., Any], model: Any) -> Callable[..., Any]: ...
    def before_apply(self, optimizer: Any, gradients: Any) -> Any: ...
    def note_train_step(self, data: Any) -> None: ...


def attach(hooks: TrainerHooks) -> None:
    """Install *hooks* between Keras and its TensorFlow trainer, once per process. Local.

    Raises:
        HooksError: another backend, an unknown Keras, or the hooks did not take.
    """
    global _attached  # noqa: PLW0603 - Keras's classes are global, so is this
    if _attached is not None:
        raise HooksError("matex is already attached to Keras in this process")
    if keras.config.backend() != "tensorflow":
        raise HooksError(
            "matex wants Keras on TensorFlow. "
            f"Received: backend {keras.config.backend()!r}; set KERAS_BACKEND=tensorflow"
        )
    _attached = hooks
    sys.meta_path.insert(0, _NoLegacyKeras())
    trainer = trainer_module.TensorFlowTrainer
    _replace(trainer, "fit", hooks.fit)
    _replace(trainer, "evaluate", hooks.evaluate)
    _replace(trainer, "predict", hooks.predict)
    _replace(trainer, "train_on_batch", hooks.train_on_batch)
    _replace_maker(
        trainer, "make_train_function", "train_function", hooks.train_function, _noted(hooks)
    )
    _replace_maker(trainer, "make_test_function", "test_function", hooks.test_function)
    _replace_maker(trainer, "make_predict_function", "predict_function", hooks.predict_function)
    _replace_epoch_iterator(hooks)
    _guard_optimizer(hooks)
    for name in ("save_own_variables", "load_own_variables"):
        _replace(base_optimizer.BaseOptimizer, name, early_optimizers.as_unbuilt)
    leave_autotuning()
    verify(keras.Model)


def verify(model_class: type) -> None:
    """Check that *model_class* trains through the hooks. Local.

    Raises:
        HooksError: it names what was overridden, and by which version of Keras.
    """
    for name in ("fit", "evaluate", "make_train_function", "make_test_function"):
        method = getattr(model_class, name, None)
        owner = next((c for c in model_class.__mro__ if name in vars(c)), None)
        if name.startswith("make_") and not hasattr(method, "_matex"):
            raise HooksError(
                f"training must go through matex's {name}. Received: {model_class.__name__}, "
                f"where {owner.__name__ if owner else 'nothing'} defines it "
                f"(Keras {keras.__version__}; tested with {TESTED})"
            )
    if not hasattr(trainer_module.TFEpochIterator, "_matex"):
        raise HooksError(
            f"Keras {keras.__version__} feeds fit in a way that matex does not know; "
            f"tested with {TESTED}"
        )


def untested() -> str:
    """Installed versions of Keras and TensorFlow that are not tested, in a line; "" if none. Local.

    Their hooks took, or :func:`attach` would have raised.
    """
    strange = outside(keras=keras.__version__, tensorflow=tf.__version__)
    return f"{strange} is outside of what matex is tested with: {TESTED}" if strange else ""


class _NoLegacyKeras:
    """Keeps the Keras of old, which nothing is attached to, from being imported unnoticed."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name == "tf_keras":
            raise HooksError(
                "matex shares the training of Keras 3 and not of tf_keras, which would train on "
                "each rank alone. Received: import tf_keras; unset TF_USE_LEGACY_KERAS"
            )


def _original(owner: Any, name: str) -> Any:
    try:
        return vars(owner)[name]
    except KeyError:
        raise HooksError(
            f"Keras {keras.__version__} has no {owner.__name__}.{name}; tested with {TESTED}"
        ) from None


def _replace(owner: Any, name: str, hook: Callable[..., Any]) -> None:
    original = _original(owner, name)

    def replacement(self: Any, *args: Any, **kwargs: Any) -> Any:
        return hook(original, self, *args, **kwargs)

    _install(owner, name, replacement, original)


def _replace_maker(
    owner: Any,
    name: str,
    attribute: str,
    hook: Callable[..., Any],
    around: Callable[[Any], contextlib.AbstractContextManager[None]] = contextlib.nullcontext,
) -> None:
    original = _original(owner, name)

    def replacement(self: Any, force: bool = False) -> Any:
        if getattr(self, attribute) is None or force:
            with around(self):
                original(self, force)
            setattr(self, attribute, hook(getattr(self, attribute), self))
        return getattr(self, attribute)

    _install(owner, name, replacement, original)


def _noted(hooks: TrainerHooks) -> Callable[[Any], contextlib.AbstractContextManager[None]]:
    """Context for making a model's train function: *hooks* see the arguments of ``train_step``."""

    @contextlib.contextmanager
    def noted(model: Any) -> Iterator[None]:
        original = model.train_step

        @functools.wraps(original)
        def train_step(data: Any) -> Any:
            hooks.note_train_step(data)
            try:
                return original(data)
            finally:
                hooks.note_train_step(None)

        own = vars(model).get("train_step")
        # Past Keras's own attributes, which would look for variables in it.
        object.__setattr__(model, "train_step", train_step)
        try:
            yield
        finally:
            object.__delattr__(model, "train_step")
            if own is not None:
                object.__setattr__(model, "train_step", own)

    return noted


def _replace_epoch_iterator(hooks: TrainerHooks) -> None:
    original = _original(trainer_module, "TFEpochIterator")

    def replacement(*args: Any, **kwargs: Any) -> Any:
        return hooks.data(original, *args, **kwargs)

    _install(trainer_module, "TFEpochIterator", replacement, original)


def _guard_optimizer(hooks: TrainerHooks) -> None:
    for owner in (base_optimizer.BaseOptimizer, keras.optimizers.LossScaleOptimizer):
        _guard_apply(owner, hooks)


def _guard_apply(owner: Any, hooks: TrainerHooks) -> None:
    original = _original(owner, "apply")

    def replacement(self: Any, grads: Any, trainable_variables: Any = None) -> Any:
        if permitted_updates.is_updating():
            return original(self, grads, trainable_variables)
        instead = permitted_updates.in_place_of_apply()
        if instead is not None:
            return instead(self, list(grads), trainable_variables)
        if permitted_updates.is_recording():
            raise SeveralUpdatesFound("train_step uses more than the model's own optimizer")
        grads = hooks.before_apply(self, list(grads))
        with permitted_updates.updating():
            return original(self, grads, trainable_variables)

    _install(owner, "apply", replacement, original)


def _install(owner: Any, name: str, replacement: Any, original: Any) -> None:
    replacement.__name__ = name
    replacement.__doc__ = original.__doc__
    replacement._matex = True
    replace(owner, name, replacement)
