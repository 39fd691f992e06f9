"""The state of a model's draws by TensorFlow's own seeds, from which any rank can go on.

An operation like ``tf.random.normal`` has a hidden state: Philox's counter, advanced by 256 for
each number drawn. For a step with a fixed count of numbers per row, or per step, it follows from
the numbers of rows and steps before. So ranks draw their rows of one process's draw, and a step
that is made again draws the same numbers.
"""

from __future__ import annotations

import secrets
from typing import Any

import keras
import tensorflow as tf

__all__ = ["count_noise", "noise_counter", "noise_state"]

_RESERVED = 256  # counters for each number
_ATTRIBUTE = "_matex_noise_state"


def noise_state(model: Any) -> Any:
    """The variable of *model*, int64, shape (3,): steps and rows that were drawn for, and a key.

    The key is of draws without a seed, which differ from run to run. It is no part of the
    model's own variables. Local; made by the first call.
    """
    variable = getattr(model, _ATTRIBUTE, None)
    if variable is None:
        key = secrets.randbits(62)
        with tf.init_scope():
            variable = keras.Variable(
                lambda shape, dtype: tf.constant([0, 0, key], dtype),
                shape=(3,),
                dtype="int64",
                trainable=False,
                name="noise_state",
            )
        object.__setattr__(model, _ATTRIBUTE, variable)  # past Keras, which would save it
    return variable


def noise_counter(
    state: Any, seed: int | None, seed2: int | None, *, number: int, numbers: Any, by_row: bool
) -> tuple[Any, Any]:
    """The key and the counter at which a draw of this step begins, both uint64. Local.

    Args:
        state: value of :func:`noise_state` before the step.
        seed: first seed of the operation.
        seed2: second seed of the operation; without both the key of *state* is used.
        number: number of the draw in the step, from 0.
        numbers: count of numbers drawn per step, or per row of the batch if *by_row*.
        by_row: whether the count is per row.
    """
    if not seed and not seed2:
        key, high = state[2], number
    else:
        key, high = tf.constant(seed, tf.int64), seed2 or 0
    low = _RESERVED * tf.cast(numbers, tf.int64) * state[1 if by_row else 0]
    counter = tf.stack([low, tf.constant(high, tf.int64)])
    return tf.cast(tf.reshape(key, (1,)), tf.uint64), tf.cast(counter, tf.uint64)


def count_noise(variable: Any, rows: Any) -> Any:
    """Count in *variable* a step of *rows* rows of the batch; part of the step's graph."""
    ones = tf.stack([tf.ones((), tf.int64), tf.cast(rows, tf.int64), tf.zeros((), tf.int64)])
    return variable.value.assign_add(ones)
