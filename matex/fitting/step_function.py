"""The decorator for a training step of a loop of the script's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from matex import keras_hooks

__all__ = ["step"]


def step(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a training step of the script's own one that ranks share. Local; its calls collective.

    The function becomes one of ``tf.function``, and gets whole batches: tensors whose first
    dimension is the number of rows. Each rank computes its rows. Gradients that an optimizer of
    Keras is given become those of the whole batch; so do metric states, and what the function
    returns: scalars, results of metrics, and tensors with a row for each of the batch's. Before
    the first step a trial on a few rows shows whether it adds up over rows; a step that does not
    is computed whole by every rank, and one line says why. When a rank dies, what the step had
    changed is put back, and the others make the step again with its rows.

    A function that is one of ``tf.function`` already is treated so without a decorator, unless
    ``--share-loops never`` is given. Outside of a run it is nothing but such a function.

    Args:
        function: function of a batch, and of whatever else; it may have been made by
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
