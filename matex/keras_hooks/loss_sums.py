"""Parts of a loss: sums over rows, divided by a number of the whole batch, and penalties.

Keras divides a masked loss by the number of unmasked elements, a loss reduced by
``"mean_with_sample_weight"`` by the sum of the weights, and one reduced by ``"sum"`` by nothing.
Numerators and denominators add up over the rows of a batch. So a rank divides the numerator of its
rows by the denominator of the whole batch, which is passed to it.

Penalties are what layers add to the loss: regularizers, and ``add_loss``. Some of the latter are
sums over rows beside a loss that is a mean.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import keras
import tensorflow as tf
from keras.src.backend.common.masking import get_keras_mask
from keras.src.backend.tensorflow.trainer import TensorFlowTrainer
from keras.src.losses import loss as keras_loss

from matex.errors import NotShareable
from matex.keras_hooks.row_sums import is_row_sum
from matex.replacing import replaced

__all__ = [
    "check_reductions",
    "has_own_loss",
    "loss_without_penalties",
    "mean_losses_only",
    "shared_losses",
]

_MEANS = ("sum_over_batch_size", "mean")
_REDUCTIONS = (*_MEANS, "sum", "mean_with_sample_weight")


def check_reductions(model: Any) -> None:
    """Raise for losses of *model* that are not reduced to a number.

    Raises:
        NotShareable: it names the reduction.
    """
    for loss in keras.tree.flatten(model.loss):
        reduction = getattr(loss, "reduction", "sum_over_batch_size")
        if reduction not in _REDUCTIONS:
            name = getattr(loss, "name", type(loss).__name__)
            raise NotShareable(f"the loss {name!r} is reduced by {reduction!r}, not to a number")


@contextlib.contextmanager
def shared_losses(
    weight: Any, denominators: Any, row_sums: list[bool] | None = None
) -> Iterator[list[Any]]:
    """Context of a trace; its losses are parts of the batch's, divided by *weight*. Local.

    The recorder multiplies the loss by *weight*, so that losses that are not over rows count once.

    Args:
        weight: scalar, local rows / rows of the step.
        denominators: denominators of the whole batch, in the order in which the step uses them.
        row_sums: whether each penalty is a sum over rows, in the order in which the step adds them;
            a first trace fills an empty list. None, the default: none is looked at.

    Yields:
        The denominators of the local rows in that order, filled as the step runs.

    Raises:
        NotShareable: a denominator cannot be determined.
    """
    local: list[Any] = []
    original = keras_loss.reduce_weighted_values
    aggregated = TensorFlowTrainer._aggregate_additional_loss
    numbers = itertools.count()

    def penalty(model: Any, loss: Any) -> Any:
        total, number = aggregated(model, loss), next(numbers)
        if row_sums is None:
            return total
        if number == len(row_sums):
            row_sums.append(is_row_sum(total))
        if not row_sums[number]:
            return total
        return tf.math.divide_no_nan(total, tf.cast(weight, total.dtype))

    def reduced(
        values: Any,
        sample_weight: Any = None,
        mask: Any = None,
        reduction: str | None = "sum_over_batch_size",
        dtype: Any = None,
    ) -> Any:
        given = {"sample_weight": sample_weight, "mask": mask, "dtype": dtype}
        counts = reduction == "mean_with_sample_weight" and sample_weight is not None
        if reduction not in _REDUCTIONS or (
            reduction != "sum" and mask is None and not counts
        ):  # a mean over all elements
            return original(values, reduction=reduction, **given)
        weighted = original(values, reduction=None, **given)
        if not weighted.shape.rank:
            return weighted
        divisor = tf.cast(weight, tf.float64)
        if reduction != "sum":
            if denominators.shape[0] is not None and len(local) >= denominators.shape[0]:
                raise NotShareable(
                    "a loss is divided by its mask or its weights in a step that runs eagerly"
                )
            divisor *= denominators[len(local)]
            local.append(_denominator(weighted, sample_weight, mask, reduction))
        return tf.math.divide_no_nan(tf.reduce_sum(weighted), tf.cast(divisor, weighted.dtype))

    with (
        replaced(keras_loss, "reduce_weighted_values", reduced),
        replaced(TensorFlowTrainer, "_aggregate_additional_loss", penalty),
    ):
        yield local


def _denominator(weighted: Any, sample_weight: Any, mask: Any, reduction: str) -> Any:
    """The divisor of a sum over *weighted*, a float64 scalar made of weights and masks alone."""
    if reduction in _MEANS:
        # Keras's mean of n elements whose mask of m elements is multiplied by m / those it lets by.
        valid = tf.reduce_sum(tf.cast(mask, tf.float64))
        return valid * _elements_to_one_of_mask(weighted.shape, mask.shape)
    if sample_weight is not None:
        sample_weight = keras.ops.convert_to_tensor(sample_weight, dtype=weighted.dtype)
    merged = keras_loss.apply_mask(sample_weight, mask, dtype=weighted.dtype, reduction=reduction)
    return tf.reduce_sum(tf.cast(merged, tf.float64))


def _elements_to_one_of_mask(weighted: tf.TensorShape, mask: tf.TensorShape) -> float:
    """Number of loss elements per mask element, by their shapes.

    Raises:
        NotShareable: the shapes do not tell.
    """
    if weighted.rank is None or weighted.rank != mask.rank:
        raise NotShareable(f"the mask, of shape {mask}, is not of the loss, of shape {weighted}")
    factor = 1.0
    for elements, masks in zip(weighted[1:], mask[1:], strict=True):
        if elements is None and masks == 1:
            raise NotShareable(f"the mask has one value for a loss of shape {weighted}")
        factor *= elements / masks if elements and masks else 1.0
    return factor


@contextlib.contextmanager
def mean_losses_only(model: Any) -> Iterator[None]:
    """Context of a trace of *model*'s step without masked losses, which divide by other numbers.

    Raises:
        NotShareable: an output carries a mask, or a loss makes one, as with ``ignore_class``.
    """
    compute_loss = model.compute_loss
    original = keras_loss.reduce_weighted_values

    def checked(*args: Any, **kwargs: Any) -> Any:
        outputs = kwargs.get("y_pred", args[2] if len(args) > 2 else None)
        _refuse_masks(map(get_keras_mask, keras.tree.flatten(outputs)))
        return compute_loss(*args, **kwargs)

    def reduced(values: Any, sample_weight: Any = None, mask: Any = None, **options: Any) -> Any:
        _refuse_masks([mask])
        return original(values, sample_weight=sample_weight, mask=mask, **options)

    object.__setattr__(model, "compute_loss", checked)
    try:
        with replaced(keras_loss, "reduce_weighted_values", reduced):
            yield
    finally:
        object.__delattr__(model, "compute_loss")


def _refuse_masks(masks: Iterable[Any]) -> None:
    if any(mask is not None for mask in masks):
        raise NotShareable("the loss is masked, so it is no mean over the batch")


def has_own_loss(model: Any) -> bool:
    """Whether the class of *model* computes its loss by a method of its own."""
    return type(model).compute_loss is not keras.Model.compute_loss


def loss_without_penalties(model: Any, x: Any, y: Any, outputs: Any, weight: Any) -> Any:
    """The loss of *model*, a scalar, as evaluation has it, of the *outputs* for *x*; local.

    Whether a loss of its own adds the layers' penalties cannot be told from its value, so it is
    computed while all of them are 0. Only penalties that it makes by formulas of its own count.
    """
    with _without_penalties(model):
        return model._compute_loss(x, y, outputs, weight, training=False)


@contextlib.contextmanager
def _without_penalties(model: Any) -> Iterator[None]:
    """Context in which ``losses`` of *model*, and of its layers, are zeros, as many as before."""
    asked = list(model._flatten_layers()) if has_own_loss(model) else [model]
    zeros = [(layer, [keras.ops.zeros_like(loss) for loss in layer.losses]) for layer in asked]
    before = [(layer, layer._losses_override) for layer in asked]
    try:
        for layer, none in zeros:
            object.__setattr__(layer, "_losses_override", none)
        yield
    finally:
        for layer, known in before:
            object.__setattr__(layer, "_losses_override", known)
