"""Forward passes of a model in evaluation mode, layer by layer or, faster, traced."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
from keras import layers

from matex import keras_hooks
from matex.keras_hooks.loss_sums import has_own_loss, loss_without_penalties

__all__ = ["FAILURES", "REFUSALS", "Forward", "Traced", "mean_loss"]

# Those in whose trace no width of theirs is left: it serves at every size of the model.
_WITHOUT_WIDTHS = (layers.Dense, layers.BatchNormalization)

# Of a loss: a trace may round otherwise, but not compute anything else.
_ROUNDING = 1e-4

# Exceptions for a layer that cannot be traced, and of a trace at an unexpected size.
REFUSALS = (
    AttributeError,
    RuntimeError,
    TypeError,
    ValueError,
    tf.errors.InvalidArgumentError,
)

# Exceptions for shapes that do not fit, from any part of a model.
FAILURES = (*REFUSALS, AssertionError, LookupError, NotImplementedError, tf.errors.OpError)


class Forward:
    """Outputs and losses of *model* on batches, without training, layer by layer; local."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def __call__(self, batch: tuple[Any, ...]) -> tuple[Any, float | None]:
        """The outputs for ``(x[, y[, sample_weight]])`` and the mean loss without regularisation.

        The loss is None where there is nothing to judge by.
        """
        outputs = self.model(batch[0], training=False)
        if not self.has_loss(batch):
            return outputs, None
        return outputs, float(mean_loss(self.model, batch, outputs))

    def forget(self) -> None:
        """Drop the traced functions, because the layers' computation has changed."""

    def has_loss(self, batch: tuple[Any, ...]) -> bool:
        """Whether *batch* has a ``y``, and the model a loss of it.

        A model whose ``train_step`` alone knows its losses has none.
        """
        model = self.model
        if not model.compiled or keras.utils.unpack_x_y_sample_weight(batch)[1] is None:
            return False
        return has_own_loss(model) or model.loss is not None


class Traced(Forward):
    """Outputs and losses of a model by one traced function; local.

    Keras takes milliseconds from layer to layer, a recurrent one at every position. To trace a
    small network anew at each size takes as long as it is judged for, so where its layers allow
    one trace serves for all sizes: it is given the weights, of whose shapes it knows nothing.

    At each size the first batch goes both ways. A trace that does not give the same loss is not
    used, nor one that cannot be made, or is not wanted: ``run_eagerly``.
    """

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self._trace: Callable[..., Any] | None = None
        self._shapes: list[tuple[int, ...]] = []
        """The shapes of the weights for which the trace, if there is one, is known to be right."""
        holders = keras_hooks.layers_with_weights(model)
        self._serves_all = all(type(layer) in _WITHOUT_WIDTHS for layer in holders)

    def __call__(self, batch: tuple[Any, ...]) -> tuple[Any, float | None]:
        if self.model.run_eagerly or not self.has_loss(batch):
            return super().__call__(batch)
        shapes = [tuple(variable.shape) for variable in self.model.weights]
        if shapes != self._shapes:
            return self._check(batch, shapes)
        if self._trace is None:
            return super().__call__(batch)
        outputs, loss = self._run(self._trace, batch)
        return outputs, float(loss)

    def forget(self) -> None:
        self._trace, self._shapes = None, []

    def _check(
        self, batch: tuple[Any, ...], shapes: list[tuple[int, ...]]
    ) -> tuple[Any, float | None]:
        """The result of :meth:`__call__` for the first batch at a size."""
        outputs: Any
        wanted: Any
        outputs, wanted = super().__call__(batch)
        self._shapes = shapes
        try:
            if self._trace is None or not self._serves_all:
                any_size = [[None] * len(shape) for shape in shapes]
                known = any_size if self._serves_all else shapes
                self._trace = _traced(self.model, batch, outputs, known)
            _, loss = self._run(self._trace, batch)
            is_right = math.isclose(float(loss), wanted, rel_tol=_ROUNDING)
        except REFUSALS:
            is_right = False
        if not is_right:
            self._trace = None
        return outputs, wanted

    def _run(self, trace: Callable[..., Any], batch: tuple[Any, ...]) -> Any:
        values = [tf.convert_to_tensor(variable.value) for variable in self.model.weights]
        return trace(values, tf.nest.flatten(batch))


def mean_loss(model: Any, batch: tuple[Any, ...], outputs: Any) -> Any:
    """The loss of *model* on *batch*, a scalar, without regularisation."""
    x, y, weight = keras.utils.unpack_x_y_sample_weight(batch)
    return loss_without_penalties(model, x, y, outputs, weight)


def _traced(
    model: Any, batch: tuple[Any, ...], outputs: Any, shapes: list[Any]
) -> Callable[..., Any]:
    """Function of values, of *shapes*, of the model's weights, and of the leaves of a batch.

    Of *batch* and *outputs*, for it, only the shapes are looked at: these are no units that die.
    """
    structure = tf.nest.map_structure(lambda _: None, batch)
    ends = [[None, *leaf.shape[1:]] for leaf in tf.nest.flatten(outputs)]

    def evaluate(values: list[Any], leaves: list[Any]) -> tuple[Any, Any]:
        batch = tf.nest.pack_sequence_as(structure, leaves)
        with keras.StatelessScope() as scope:
            for variable, value in zip(model.weights, values, strict=True):
                scope.add_update((variable, value))
            outputs = model(batch[0], training=False)
            for leaf, shape in zip(tf.nest.flatten(outputs), ends, strict=True):
                leaf.set_shape(shape)
            return outputs, mean_loss(model, batch, outputs)

    weights = [
        tf.TensorSpec(shape, v.dtype) for shape, v in zip(shapes, model.weights, strict=True)
    ]
    rows = [tf.TensorSpec([None, *leaf.shape[1:]], leaf.dtype) for leaf in tf.nest.flatten(batch)]
    traced: Callable[..., Any] = keras_hooks.graph_of(evaluate, weights, rows)
    return traced
