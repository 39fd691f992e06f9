"""A model without randomness: random layers and batch statistics are disabled."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import tensorflow as tf
from keras import ops
from keras.src import backend

from matex.keras_hooks.batch_moments import normalizations
from matex.keras_hooks.models import seed_variables
from matex.replacing import replaced

__all__ = ["DisabledRandomness"]

# Inside the range of possible draws, and no special value in formulas.
_PLACE = 0.37


class DisabledRandomness:
    """The random layers and batch statistics of a step of *model*, disabled for a trial. Local.

    Args:
        model: model of the step.
        synchronized: layers of its BatchNormalization that see the rows of all ranks, and so go
            by them. None by default.
    """

    def __init__(self, model: Any, synchronized: Sequence[Any] = ()) -> None:
        self._model = model
        self._synchronized = synchronized
        self._is_noted = True

    @property
    def differs_in_parts(self) -> bool:
        """Whether parts of a batch differ from the whole by randomness, which is then left out.

        Noise with a row for each of the batch's is the same in them. A step of which
        :meth:`noted_in` found no other is, without them, the same step.
        """
        draws = self._is_noted and bool(seed_variables(self._model))
        return draws or bool(normalizations(self._model))

    def noted_in(self, trace: Callable[[], Any]) -> Any:
        """Result of *trace*, which traces the step; notes what :meth:`left_out` replaces."""
        self._is_noted = False

        def noting(present: Callable[..., Any]) -> Callable[..., Any]:
            def draw(*args: Any, **kwargs: Any) -> Any:
                self._is_noted = True
                return present(*args, **kwargs)

            return functools.update_wrapper(draw, present)

        with contextlib.ExitStack() as stack:
            for name in _SUBSTITUTES:
                new = noting(getattr(backend.random, name))
                stack.enter_context(replaced(backend.random, name, new))
            return trace()

    @contextlib.contextmanager
    def left_out(self) -> Iterator[None]:
        """Run or trace the step inside, without them.

        All Keras draws are one constant, equal for all rows; dropout drops nothing, and a shuffle
        reverses the order. BatchNorm uses its moving statistics, without updating them.
        """
        with contextlib.ExitStack() as stack:
            for name, substitute in _SUBSTITUTES.items():
                stack.enter_context(replaced(backend.random, name, substitute))
            for layer in normalizations(self._model):
                if any(layer is one for one in self._synchronized):
                    continue
                # Past Keras's own attributes, which would look for variables in it.
                object.__setattr__(layer, "call", _as_in_inference(layer.call))
                stack.callback(object.__delattr__, layer, "call")
            yield


def _as_in_inference(call: Callable[..., Any]) -> Callable[..., Any]:
    def inferring(inputs: Any, training: Any = None, mask: Any = None) -> Any:
        return call(inputs, training=False, mask=mask)

    return inferring


def _filled(shape: Any, value: Any, dtype: Any) -> Any:
    dtype = dtype or keras.config.floatx()
    return tf.zeros(shape, dtype) + tf.cast(value, dtype)


def _normal(
    shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = None, seed: Any = None
) -> Any:
    return _filled(shape, mean + _PLACE * stddev, dtype)


def _uniform(
    shape: Any, minval: Any = 0.0, maxval: Any = 1.0, dtype: Any = None, seed: Any = None
) -> Any:
    return _filled(shape, minval + _PLACE * (maxval - minval), dtype)


def _randint(shape: Any, minval: Any, maxval: Any, dtype: Any = "int32", seed: Any = None) -> Any:
    return _filled(shape, (minval + maxval) // 2, dtype)


def _categorical(logits: Any, num_samples: int, dtype: Any = "int64", seed: Any = None) -> Any:
    likeliest = ops.cast(ops.argmax(logits, -1), dtype)
    return ops.repeat(ops.expand_dims(likeliest, -1), num_samples, -1)


def _dropout(inputs: Any, rate: Any, noise_shape: Any = None, seed: Any = None) -> Any:
    return ops.convert_to_tensor(inputs)


def _shuffle(x: Any, axis: int = 0, seed: Any = None) -> Any:
    return ops.flip(x, axis)


def _gamma(shape: Any, alpha: Any, dtype: Any = None, seed: Any = None) -> Any:
    return _filled(shape, alpha, dtype)


def _binomial(
    shape: Any, counts: Any, probabilities: Any, dtype: Any = None, seed: Any = None
) -> Any:
    dtype = dtype or keras.config.floatx()
    mean = tf.cast(counts, dtype) * tf.cast(probabilities, dtype)
    return _filled(shape, tf.round(mean), dtype)


def _beta(shape: Any, alpha: Any, beta: Any, dtype: Any = None, seed: Any = None) -> Any:
    dtype = dtype or keras.config.floatx()
    alpha, beta = tf.cast(alpha, dtype), tf.cast(beta, dtype)
    return _filled(shape, alpha / (alpha + beta), dtype)


_SUBSTITUTES: dict[str, Callable[..., Any]] = {
    "normal": _normal,
    "truncated_normal": _normal,
    "uniform": _uniform,
    "randint": _randint,
    "categorical": _categorical,
    "dropout": _dropout,
    "shuffle": _shuffle,
    "gamma": _gamma,
    "binomial": _binomial,
    "beta": _beta,
}
