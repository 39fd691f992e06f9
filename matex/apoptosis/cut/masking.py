"""Normalization layers that leave removed units out of their statistics during a trial.

A trial transfers the readers' rows of removed units to kept ones and changes no shape. That is a
complete removal unless a layer divides by statistics of several units (LayerNormalization,
RMSNormalization, GroupNormalization): with fewer units these statistics differ, and so does the
layer's output for kept units. Here such a layer gets a mask of the kept units, and computes during
a trial its result after the cut.

Its gamma and beta are refitted, unit by unit: to the least squares between its outputs and those
before any removal.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from types import TracebackType
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from matex.apoptosis.graph.network import Binding, Network, Norm

__all__ = ["Masks"]

# Approximate number of rows to which gamma and beta, two numbers per unit, are fitted.
_ROWS = 2048

# Fraction of a unit's former square, below which there is nothing to fit to.
_NOTHING = 1e-6


class Masks:
    """Masks of all such layers of *net*, active within ``with``; local.

    Args:
        changed: function to be called when the layers begin or cease to compute with masks, after
            which they must be traced again.
    """

    def __init__(self, net: Network, changed: Callable[[], None]) -> None:
        self._net = net
        self._changed = changed
        self._masked = [_Masked(norm) for norm in net.norms.values()]

    @property
    def bindings(self) -> list[Binding]:
        """Masks, as variables that a cut shortens like the others."""
        return [Binding(one.mask, 0, one.norm.units) for one in self._masked]

    def __enter__(self) -> Masks:
        for one in self._masked:
            object.__setattr__(one.norm.layer, "call", one)
        if self._masked:
            self._changed()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for one in self._masked:
            object.__delattr__(one.norm.layer, "call")
        if self._masked:
            self._changed()

    def leave_out(self, removed: Collection[int]) -> None:
        """Leave out exactly the units whose roots are *removed*, from now on."""
        gone = np.array(sorted(removed), np.int64)
        for one in self._masked:
            one.mask.assign(~np.isin(self._net.units.roots(one.norm.units), gone))

    def remember(self, model: Any, inputs: Any) -> None:
        """Keep the layers' outputs for *inputs* as the target of :meth:`refit`."""
        if not self._masked:
            return
        for one in self._masked:
            one.visitor = one.remember
        model(inputs, training=False)
        self._end_visit()

    def refit(self, model: Any, inputs: Any) -> list[tuple[Any, np.ndarray]]:
        """Fit gamma and beta of each layer that leaves units out, in the order of the graph.

        Args:
            inputs: inputs that :meth:`remember` was given.

        Returns:
            Assigned variables, in order, and their former values.
        """
        fitting = [one for one in self._masked if not one.living.all()]
        weights = [w for one in fitting for w in one.fitted if w is not None]
        before = [(weight, np.asarray(weight.numpy())) for weight in weights]
        for one in fitting:
            one.visitor = one.refit
        if fitting:
            model(inputs, training=False)
        self._end_visit()
        return before

    def _end_visit(self) -> None:
        for one in self._masked:
            one.visitor = None


class _AffineFit(NamedTuple):
    """The target of a fit of gamma and beta: some rows that the layer normalized, (rows, units).

    ``gamma`` and ``beta`` are the weights for these rows, 1 and 0 if there are none.
    """

    rows: np.ndarray
    gamma: np.ndarray
    beta: np.ndarray


class _Masked:
    """Masked ``call`` of a layer."""

    def __init__(self, norm: Norm) -> None:
        self.norm = norm
        living = np.ones(len(norm.units), np.float32)
        self.mask = keras.Variable(living, trainable=False, name="living")
        self.visitor: Callable[[np.ndarray], None] | None = None
        """Function that the first call within a pass applies to the rows that it has normalised."""
        layer = norm.layer
        is_rms = isinstance(layer, keras.layers.RMSNormalization)
        self.weights = (layer.scale, None) if is_rms else (layer.gamma, layer.beta)
        self._centers = not is_rms
        self._axes: list[int] = [int(axis) for axis in np.ravel(layer.axis)]
        self._groups: int | None = getattr(layer, "groups", None)
        self._fit: _AffineFit | None = None

    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        if self.visitor is None and tf.executing_eagerly() and self.living.all():
            return type(self.norm.layer).call(self.norm.layer, inputs, *args, **kwargs)
        x = ops.cast(inputs, keras.backend.result_type(inputs.dtype, "float32"))
        normal = self._normalized(x)
        if self.visitor is not None:
            visitor, self.visitor = self.visitor, None
            axis = self._axes[self.norm.place]
            rows = np.moveaxis(np.asarray(normal), axis, -1).reshape(-1, x.shape[axis])
            visitor(rows[:: max(1, len(rows) // _ROWS)].astype(np.float64))
        gamma, beta = (w if w is None else ops.cast(w, x.dtype) for w in self.weights)
        shape = [1] * len(x.shape)
        for axis in self._axes:
            shape[axis] = x.shape[axis]
        if gamma is not None:
            normal = normal * ops.reshape(gamma, shape)
        if beta is not None:
            normal = normal + ops.reshape(beta, shape)
        return ops.cast(normal, self.norm.layer.compute_dtype)

    @property
    def living(self) -> np.ndarray:
        """Whether each unit lives, bool, shape (units,)."""
        return np.asarray(self.mask.numpy()) > 0

    def _normalized(self, x: Any) -> Any:
        """*x* by the statistics of the living, before gamma and beta."""
        channels = self._axes[self.norm.place] % len(x.shape)
        if self._groups is None:
            return self._scaled(x, [axis % len(x.shape) for axis in self._axes], channels)
        whole = ops.shape(x)
        side = whole[channels] // self._groups
        parted = ops.reshape(x, [*whole[:channels], self._groups, side, *whole[channels + 1 :]])
        others = [axis for axis in range(1, len(x.shape) + 1) if axis != channels]
        return ops.reshape(self._scaled(parted, others, channels), whole)

    def _scaled(self, x: Any, axes: list[int], channels: int) -> Any:
        shape = [1] * len(x.shape)
        if self._groups is None:
            shape[channels] = -1
        else:
            shape[channels : channels + 2] = [self._groups, -1]
        living = ops.cast(ops.reshape(self.mask, shape), x.dtype) * ops.ones_like(x)
        count = ops.sum(living, axes, keepdims=True)
        if self._centers:
            x = x - ops.sum(x * living, axes, keepdims=True) / count
        variance = ops.sum(ops.square(x) * living, axes, keepdims=True) / count
        return x * ops.rsqrt(variance + self.norm.layer.epsilon)

    @property
    def fitted(self) -> tuple[Any, Any]:
        """The weights that may be fitted: those that training changes, too."""
        gamma, beta = (w if w is not None and w.trainable else None for w in self.weights)
        return gamma, beta

    def remember(self, rows: np.ndarray) -> None:
        """Remember *rows* as the outputs of the current weights."""
        gamma, beta = self.weights
        self._fit = _AffineFit(
            rows,
            np.ones(1) if gamma is None else np.asarray(gamma.numpy(), np.float64),
            np.zeros(1) if beta is None else np.asarray(beta.numpy(), np.float64),
        )

    def refit(self, rows: np.ndarray) -> None:
        """Set the weights so that *rows* come closest to the remembered ones."""
        assert self._fit is not None, "remember comes before refit"
        slope, shift = _fitted(rows, self._fit.rows, self.living, self.fitted)
        shape = [1] * len(self._axes)
        shape[self.norm.place] = -1
        slope, shift = slope.reshape(shape), shift.reshape(shape)
        gamma, beta = self.fitted
        if gamma is not None:
            gamma.assign(self._fit.gamma * slope)
        if beta is not None:
            beta.assign(self._fit.beta + self._fit.gamma * shift)


def _fitted(
    now: np.ndarray, wanted: np.ndarray, living: np.ndarray, weights: tuple[Any, Any]
) -> tuple[np.ndarray, np.ndarray]:
    """The slope and the shift by which *now* gives *wanted*, unit by unit: each shape (units,)."""
    gamma, beta = weights
    means = (now.mean(0), wanted.mean(0)) if beta is not None else (np.zeros(1), np.zeros(1))
    a, b = now - means[0], wanted - means[1]
    power = np.einsum("ru,ru->u", a, a)
    known = living & (power > _NOTHING * len(now))
    slope = np.ones(len(living))
    if gamma is not None:
        slope = np.where(known, np.einsum("ru,ru->u", a, b) / np.where(known, power, 1.0), 1.0)
    shift = np.where(living, means[1] - slope * means[0], 0.0)
    return slope, shift
