"""Decorator for the training step of a custom loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from matex import keras_hooks

__all__ = ["step"]


def step(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a training step of a custom loop one that ranks share. Local; its calls are collective.

    The function becomes one of ``tf.function``, and is called with whole batches: tensors whose
    first dimension is the number of rows. Each rank computes its own rows. Gradients passed to a
    Keras optimizer become those of the whole batch; so do metric states, and the function's
    results: scalars, results of metrics, and tensors with a row for each row of the batch. Before
    the first step a check on a few rows finds whether the step adds up over rows; if not, every
    rank computes whole batches, and one line gives the reason. When a rank dies, the changes of the
    step are rolled back, and the others make the step again with its rows.

    A function of ``tf.function`` is treated so without a decorator, unless ``--share-loops never``
    is given. Outside of a run the result is a plain ``tf.function``.

    Args:
        function: function of a batch and any other arguments; it may have been made by
            ``tf.function``.

    Returns:
        A function of ``tf.function``.

    Raises:
        InputError: *function* cannot be called.

    Example:
        >>> model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
        >>> optimizer = keras.optimizers.SGD(0.1)
        >>> @matex.step
        ... @tf.function(autograph=False)  # may be left out, as any tf.function
        ... def train_step(x, y):
        ...     with tf.GradientTape() as tape:
        ...         loss = tf.reduce_mean((model(x) - y) ** 2)
        ...     weights = model.trainable_variables
        ...     optimizer.apply(tape.gradient(loss, weights), weights)
        ...     return loss
        >>> train_step(np.zeros((8, 4), np.float32), np.zeros((8, 1), np.float32)).numpy().item()
        0.0
    """
    return keras_hooks.as_function(function)
