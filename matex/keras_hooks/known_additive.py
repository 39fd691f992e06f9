"""Parts of Keras that are known to add up over the rows of a batch, so that no trial is needed."""

from __future__ import annotations

from typing import Any

import keras
from keras.src.layers.layer import Layer
from keras.src.models.functional import Functional

__all__ = ["adds_up", "counts_add_up", "evaluates_rows"]

_LOSSES = {
    "mean_squared_error", "mse", "mean_absolute_error", "mae", "mean_absolute_percentage_error",
    "mape", "mean_squared_logarithmic_error", "msle", "huber", "huber_loss", "log_cosh", "logcosh",
    "binary_crossentropy", "categorical_crossentropy", "sparse_categorical_crossentropy",
    "poisson", "kl_divergence", "kld", "hinge", "squared_hinge", "categorical_hinge",
}  # fmt: skip

_CLASSES = (
    keras.losses.MeanSquaredError,
    keras.losses.MeanAbsoluteError,
    keras.losses.MeanAbsolutePercentageError,
    keras.losses.MeanSquaredLogarithmicError,
    keras.losses.Huber,
    keras.losses.LogCosh,
    keras.losses.BinaryCrossentropy,
    keras.losses.CategoricalCrossentropy,
    keras.losses.SparseCategoricalCrossentropy,
    keras.losses.Poisson,
    keras.losses.KLDivergence,
    keras.losses.Hinge,
    keras.losses.SquaredHinge,
    keras.losses.CategoricalHinge,
)

_STEPS = ("train_step", "compute_loss", "compute_metrics", "call", "__call__")

# The first of them gets a rank's own gradients, before the exchange in ``apply``.
_OF_OPTIMIZER = ("apply_gradients", "scale_loss")

# Layers that mix the rows of a batch, or run code that is not Keras's. A spectrogram is cut off
# below its loudest value.
_OTHERS = {
    *("Lambda", "TFSMLayer", "FlaxLayer", "JaxLayer", "TorchModuleWrapper"),
    *("MixUp", "CutMix", "MelSpectrogram"),
}

# Attributes of layers that name axes, of which the first is that of the rows.
_AXES = ("axis", "axes", "attention_axes", "_attention_axes")

_REGULARIZERS = (keras.regularizers.L1, keras.regularizers.L2, keras.regularizers.L1L2)


def adds_up(model: Any) -> bool:
    """Whether *model* is made of parts of Keras alone that are known to. Local.

    Its layers, its losses, its metrics and what its optimizer does to the loss and the gradients
    before they are exchanged, put together without operations of the script's.
    """
    before = (getattr(type(model.optimizer), name, None) for name in _OF_OPTIMIZER)
    return _forward_adds_up(model) and all(map(_is_of_keras, before))


def _forward_adds_up(model: Any) -> bool:
    parts = list(model._flatten_layers())
    return (
        not any(name in vars(model) for name in _STEPS)
        and all(_is_known_part(part) for part in parts)
        and all(_is_known_loss(loss) for loss in keras.tree.flatten(model.loss))
        and all(_is_known_metric(metric) for metric in model.metrics)
    )


def evaluates_rows(model: Any) -> bool:
    """Whether *model*'s ``test_step`` is made of parts of Keras alone that add up. Local."""
    own = "test_step" in vars(model) or type(model).test_step is not keras.Model.test_step
    # Other losses depend on how rows are grouped into batches.
    means = all(
        getattr(loss, "reduction", "mean") in ("sum_over_batch_size", "mean")
        for loss in keras.tree.flatten(model.loss)
    )
    return _forward_adds_up(model) and means and not own


def counts_add_up(model: Any) -> bool:
    """Whether all metrics of *model* are Keras's own, which sum their counts. Local."""
    inside = [
        one for each in model.metrics for one in (each, *(getattr(each, "metrics", ()) or ()))
    ]
    return all(_is_of_keras(metric) for metric in inside)


def _is_known_part(part: Any) -> bool:
    if isinstance(part, keras.Model):
        return _is_graph_of_layers(part)
    activity = getattr(part, "activity_regularizer", None)
    return (
        _is_of_keras(part)
        and type(part).__name__ not in _OTHERS
        and not getattr(part, "stateful", False)  # it keeps a state of each row of a batch
        and _is_along_rows(part)
        and _is_of_keras(getattr(part, "activation", None))
        and (activity is None or type(activity) in _REGULARIZERS)
    )


def _is_along_rows(layer: Any) -> bool:
    """Whether a layer of Keras computes each row by itself, as its options say."""
    axes = keras.tree.flatten([getattr(layer, name, None) for name in _AXES])
    if any(axis is not None and axis < 1 and axis != -1 for axis in axes):
        return False  # the other negative ones may be any
    if isinstance(layer, keras.layers.EinsumDense):
        given, _, made = layer.equation.replace(" ", "").partition("->")
        return given.split(",")[0][:1] == made[:1] != ""
    if isinstance(layer, keras.layers.TextVectorization):  # texts are filled up to the longest
        return layer._output_mode != "int" or layer._output_sequence_length is not None
    return True


def _is_graph_of_layers(model: Any) -> bool:
    """Whether *model* is functional or Sequential for any batch size, with layers only."""
    base = keras.Sequential if isinstance(model, keras.Sequential) else Functional
    if not isinstance(model, base):
        return False
    if any(getattr(type(model), name) is not getattr(base, name) for name in _STEPS):
        return False
    if model.built and any(each.shape[0] is not None for each in model.inputs):
        return False
    parts = model.layers if isinstance(model, keras.Sequential) else model.operations
    return all(isinstance(part, Layer) for part in parts)


def _is_known_loss(loss: Any) -> bool:
    if loss is None or isinstance(loss, str):
        return loss is None or loss.lower() in _LOSSES
    if isinstance(loss, keras.losses.Loss):
        return type(loss) in _CLASSES
    return _is_of_keras(loss) and getattr(loss, "__name__", "") in _LOSSES


def _is_known_metric(metric: Any) -> bool:
    inside = getattr(metric, "metrics", None) or []
    wrapped = getattr(metric, "_fn", None)
    # A cosine similarity along the first axis compares columns of all rows.
    given = getattr(metric, "_fn_kwargs", None) or {}
    return (
        _is_of_keras(metric)
        and _is_of_keras(wrapped)
        and given.get("axis", -1) == -1
        and all(_is_known_metric(one) for one in inside)
    )


def _is_of_keras(thing: Any) -> bool:
    """Whether an object, or a function, is Keras's own; None is."""
    kind = thing if hasattr(thing, "__name__") else type(thing)
    return thing is None or str(kind.__module__).startswith("keras.src.")
