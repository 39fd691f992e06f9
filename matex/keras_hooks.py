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
from keras.src.backend.common.masking import get_keras_mask
from keras.src.backend.tensorflow import trainer as trainer_module
from keras.src.optimizers import base_optimizer
from keras.src.trainers import data_adapters
from keras.src.trainers.data_adapters import data_adapter_utils

from matex.errors import HooksError, NotShareable, Unsupported

__all__ = ["TrainerHooks", "attach"]

TESTED = "Keras 3.15 on TensorFlow 2.21"


class TrainerHooks(Protocol):
    """What a runtime gives Keras in place of its own."""

    def fit(self, original: Callable[..., Any], model: Any, *args: Any, **kwargs: Any) -> Any: ...
    def evaluate(
        self, original: Callable[..., Any], model: Any, *args: Any, **kwargs: Any
    ) -> Any: ...
    def data(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any: ...
    def predict(
        self, original: Callable[..., Any], model: Any, *args: Any, **kwargs: Any
    ) -> Any: ...
    def train_function(self, original: Callable[..., Any], model: Any) -> Callable[..., Any]: ...
    def test_function(self, original: Callable[..., Any], model: Any) -> Callable[..., Any]: ...
    def predict_function(self, original: Callable[..., Any], model: Any) -> Callable[..., Any]: ...
    def applying(self, optimizer: Any, gradients: Any) -> Any: ...


_attached: TrainerHooks | None = None
_updating = 0
_recording = 0


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
    _replace(trainer, "predict", hooks.predict)
    _replace_maker(trainer, "make_train_function", "train_function", hooks.train_function)
    _replace_maker(trainer, "make_test_function", "test_function", hooks.test_function)
    _replace_maker(trainer, "make_predict_function", "predict_function", hooks.predict_function)
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
    for owner in (base_optimizer.BaseOptimizer, keras.optimizers.LossScaleOptimizer):
        _guard_apply(owner, hooks)


def _guard_apply(owner: Any, hooks: TrainerHooks) -> None:
    original = _original(owner, "apply")

    def replacement(self: Any, grads: Any, trainable_variables: Any = None) -> Any:
        if _updating:
            return original(self, grads, trainable_variables)
        if _recording:
            raise NotShareable("train_step uses more than the model's own optimizer")
        grads = hooks.applying(self, list(grads))
        with updating():
            return original(self, grads, trainable_variables)

    _install(owner, "apply", replacement, original)


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


def is_stream(x: Any) -> bool:
    """Whether *x* is data that come batch by batch."""
    return isinstance(x, tf.data.Dataset | keras.utils.PyDataset | types.GeneratorType) or (
        data_adapters.is_torch_dataloader(x) or data_adapters.is_grain_dataset(x)
    )


def dataset_of(feed: Any) -> Any:
    """The ``tf.data.Dataset`` that Keras's epoch iterator *feed* goes over.

    That of a generator loses its prefetching, because how much a pass that ends early
    has fetched would differ from rank to rank.
    """
    adapter = feed.data_adapter
    if isinstance(adapter, data_adapters.GeneratorDataAdapter):
        dataset = feed._distributed_dataset
        if type(dataset).__name__ == "_PrefetchDataset":
            (feed._distributed_dataset,) = dataset._inputs()
    return feed._distributed_dataset


def build(model: Any, data: Any) -> None:
    """Create all variables of *model*, its metrics and its optimizer from a batch's shapes.

    *data* is what ``train_step`` gets, or ``tf.TensorSpec`` in its place.

    Raises:
        NotShareable: only a train step of its own knows how to call the model.
    """
    if model.optimizer is None:
        raise Unsupported(
            "fit on several ranks wants a model compiled with an optimizer. Received: none"
        )
    try:
        model._symbolic_build(data_batch=data)
    except RuntimeError as error:  # Keras's word for whatever went wrong in call()
        raise NotShareable(
            f"{type(model).__name__} cannot be built from its data before training"
        ) from error
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


def refuse(model: Any) -> None:
    """Raise for what cannot be trained rightly in parallel.

    Raises:
        Unsupported: naming it.
    """
    strategy = model.distribute_strategy
    if type(strategy).__name__ != "_DefaultDistributionStrategy":
        raise Unsupported(
            "matex shares the batch among ranks itself: do not use tf.distribute. "
            f"Received: {type(strategy).__name__}"
        )


def refuse_to_cut(model: Any) -> None:
    """Raise for losses that are no mean over the rows of a batch.

    Raises:
        NotShareable: naming it.
    """
    for loss in keras.tree.flatten(model.loss):
        reduction = getattr(loss, "reduction", "sum_over_batch_size")
        if reduction not in ("sum_over_batch_size", "mean"):
            name = getattr(loss, "name", type(loss).__name__)
            raise NotShareable(f"the loss {name!r} is reduced by {reduction!r}, not to a mean")


@contextlib.contextmanager
def mean_losses_only(model: Any) -> Iterator[None]:
    """Trace a step of *model* inside: a masked loss divides by what is not masked, not by rows.

    Raises:
        NotShareable: an output carries a mask.
    """
    compute_loss = model.compute_loss

    def checked(*args: Any, **kwargs: Any) -> Any:
        outputs = kwargs.get("y_pred", args[2] if len(args) > 2 else None)
        for output in keras.tree.flatten(outputs):
            if get_keras_mask(output) is not None:
                raise NotShareable("the loss is masked, so it is no mean over the batch")
        return compute_loss(*args, **kwargs)

    object.__setattr__(model, "compute_loss", checked)
    try:
        yield
    finally:
        object.__delattr__(model, "compute_loss")


def start_at(model: Any, epoch: int | None) -> None:
    """Make the next fit begin with *epoch* (None: with its ``initial_epoch``)."""
    model._initial_epoch = epoch
