"""Attaching to Keras: the only module that touches its private names.

``attach`` replaces, on ``keras.Model``'s TensorFlow trainer, what gives fit and
evaluate their data and their step. Each replacement is looked up again
afterwards, and every later fit checks that it still stands: a hook that did not
take would let every rank train alone in silence.
"""

from __future__ import annotations

import contextlib
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import keras
import tensorflow as tf
from keras.src.backend.tensorflow import trainer as trainer_module
from keras.src.trainers import data_adapters
from keras.src.trainers.data_adapters import data_adapter_utils

from matex.errors import HooksError, Unsupported

__all__ = ["TrainerHooks", "attach"]

TESTED = "Keras 3.15 on TensorFlow 2.21"


class TrainerHooks(Protocol):
    """What a runtime gives Keras in place of its own."""

    def fit(self, original: Callable[..., Any], model: Any, *args: Any, **kwargs: Any) -> Any: ...
    def evaluate(
        self, original: Callable[..., Any], model: Any, *args: Any, **kwargs: Any
    ) -> Any: ...
    def data(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any: ...
    def train_function(self, original: Callable[..., Any], model: Any) -> Callable[..., Any]: ...
    def test_function(self, original: Callable[..., Any], model: Any) -> Callable[..., Any]: ...
    def applying(self) -> None: ...


_attached: TrainerHooks | None = None
_updating = 0


def attach(hooks: TrainerHooks) -> None:
    """Put *hooks* between Keras and its TensorFlow trainer, once a process. Local.

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
    _replace_maker(trainer, "make_train_function", "train_function", hooks.train_function)
    _replace_maker(trainer, "make_test_function", "test_function", hooks.test_function)
    _replace_epoch_iterator(hooks)
    _guard_optimizer(hooks)
    verify(keras.Model)


def verify(model_class: type) -> None:
    """Whether *model_class* trains through the hooks. Local.

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


def _replace_maker(owner: Any, name: str, attribute: str, hook: Callable[..., Any]) -> None:
    original = _original(owner, name)

    def replacement(self: Any, force: bool = False) -> Any:
        if getattr(self, attribute) is None or force:
            original(self, force)
            setattr(self, attribute, hook(getattr(self, attribute), self))
        return getattr(self, attribute)

    _install(owner, name, replacement, original)


def _replace_epoch_iterator(hooks: TrainerHooks) -> None:
    original = _original(trainer_module, "TFEpochIterator")

    def replacement(*args: Any, **kwargs: Any) -> Any:
        return hooks.data(original, *args, **kwargs)

    _install(trainer_module, "TFEpochIterator", replacement, original)


def _guard_optimizer(hooks: TrainerHooks) -> None:
    from keras.src.optimizers.base_optimizer import BaseOptimizer

    original = _original(BaseOptimizer, "apply")

    def replacement(self: Any, grads: Any, trainable_variables: Any = None) -> Any:
        if not _updating:
            hooks.applying()
        return original(self, grads, trainable_variables)

    _install(BaseOptimizer, "apply", replacement, original)


def _install(owner: Any, name: str, replacement: Any, original: Any) -> None:
    replacement.__name__ = name
    replacement.__doc__ = original.__doc__
    replacement._matex = True
    setattr(owner, name, replacement)


@contextlib.contextmanager
def updating() -> Iterator[None]:
    """Around the one place where optimizers may change weights."""
    global _updating  # noqa: PLW0603 - a property of the process, as the optimizers' class is
    _updating += 1
    try:
        yield
    finally:
        _updating -= 1


def is_stream(x: Any) -> bool:
    """Whether *x* is data that come batch by batch."""
    return isinstance(x, tf.data.Dataset | keras.utils.PyDataset | types.GeneratorType) or (
        data_adapters.is_torch_dataloader(x) or data_adapters.is_grain_dataset(x)
    )


def dataset_of(feed: Any) -> Any:
    """The ``tf.data.Dataset`` that Keras's epoch iterator *feed* goes over."""
    return feed._distributed_dataset


def build(model: Any, data: Any) -> None:
    """Create all variables of *model*, its metrics and its optimizer from a batch's shapes.

    *data* is what ``train_step`` gets, or ``tf.TensorSpec`` in its place.
    """
    if model.optimizer is None:
        raise Unsupported(
            "fit on several ranks wants a model compiled with an optimizer. Received: none"
        )
    model._symbolic_build(data_batch=data)
    if not model.optimizer.built:
        model.optimizer.build(model.trainable_variables)


def changing_variables(model: Any) -> list[Any]:
    """Variables made to change outside the optimizer: not weights, not frozen weights."""
    weights = {id(v) for layer in model._flatten_layers() for v in layer._trainable_variables}
    return [v for v in model.non_trainable_variables if id(v) not in weights]


def seed_variables(model: Any) -> list[Any]:
    """States of the model's random generators, shape (2,)."""
    found = {
        id(generator.state): generator.state
        for layer in model._flatten_layers()
        for generator in layer._seed_generators
    }
    return list(found.values())


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


def as_data(batch: tuple[Any, ...]) -> Any:
    """The batch ``(x[, y[, sample_weight]])`` as ``train_step`` gets it from Keras's pipeline."""
    return data_adapter_utils.pack_x_y_sample_weight(*batch)


def scales_loss(optimizer: Any) -> bool:
    """Whether *optimizer* expects infinite gradients now and then, and deals with them."""
    return isinstance(optimizer, keras.optimizers.LossScaleOptimizer)


def updates_made(optimizer: Any) -> int | None:
    """How many updates *optimizer* has made; None where it may leave some out by itself."""
    return None if scales_loss(optimizer) else int(optimizer.iterations.numpy())


def refuse(model: Any) -> None:
    """Raise for what cannot be trained rightly in parallel.

    Raises:
        Unsupported: naming it.
    """
    for loss in keras.tree.flatten(model.loss):
        reduction = getattr(loss, "reduction", "sum_over_batch_size")
        if reduction not in ("sum_over_batch_size", "mean"):
            raise Unsupported(
                "losses shared among ranks must be means over the batch "
                f"(reduction='sum_over_batch_size'). Received: {loss} with {reduction!r}"
            )
    strategy = model.distribute_strategy
    if type(strategy).__name__ != "_DefaultDistributionStrategy":
        raise Unsupported(
            "matex shares the batch among ranks itself: do not use tf.distribute. "
            f"Received: {type(strategy).__name__}"
        )


def start_at(model: Any, epoch: int | None) -> None:
    """Make the next fit begin with *epoch* (None: with its ``initial_epoch``)."""
    model._initial_epoch = epoch
