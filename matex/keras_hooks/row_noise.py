"""Random numbers for the rows of a batch: each rank draws those that one process would."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import tensorflow as tf
from keras.src import backend
from keras.src.random.seed_generator import SeedGenerator

from matex.errors import NotShareable

__all__ = ["NoiseRows", "rows_of_noise"]

# Keras's own functions whose result has a given shape. A trial replaces them by constants
# (quiet.py), but what is cut like the batch need not be: its rows must differ as rows do.
_DRAWS: dict[str, Callable[..., Any]] = {
    name: getattr(backend.random, name)
    for name in ("normal", "uniform", "truncated_normal", "randint", "gamma", "binomial", "beta")
}
# Those whose result has the shape of what they are given.
_OTHERS = ("categorical", "dropout", "shuffle")


class NoiseRows(NamedTuple):
    """The place of a rank's rows in the batch."""

    own: Any
    """Number of the rank's rows, an int32 scalar."""
    whole: Any
    """Number of the batch's rows, an int32 scalar."""
    indices: Callable[[], Any]
    """Function that gives the places of the rank's rows in the batch, an int32 vector."""


@contextlib.contextmanager
def rows_of_noise(
    rows: NoiseRows,
    shifted: list[Any],
    unshift: Callable[[Any], Any],
    by_row: list[bool],
    *,
    strict: bool = False,
) -> Iterator[None]:
    """Trace a train step inside: noise with a row for each of the batch's is cut like the batch.

    Noise is taken to have such rows where its first dimension is not known before the batch is. It
    may also have a whole number of blocks of them: a row for each fake and then for each real one.

    Args:
        rows: rows that are computed.
        shifted: seed variables (of TensorFlow) that were moved, so that ranks draw different
            numbers.
        unshift: function that gives the seed as it was before that.
        by_row: flags of the draws, in the order of the trace: whether a draw has such rows. An
            empty list is filled; a filled one is used, where batches have a known size.
        strict: whether to refuse generators that are not shifted. False by default.

    Raises:
        NotShareable: a generator was used that is not shifted, and *strict* is given.
    """
    moved = {id(variable) for variable in shifted}
    known = iter(list(by_row)) if by_row else None

    def is_by_row(shape: Any) -> bool:
        if known is not None:
            return next(known, False)
        by_row.append(_is_open(shape))
        return by_row[-1]

    def check(seed: Any) -> None:
        is_shifted = isinstance(seed, SeedGenerator) and id(seed.state.value) in moved
        if strict and not is_shifted and not isinstance(seed, int):
            raise NotShareable(
                "train_step draws random numbers from a generator that is no attribute of the model"
            )

    def guarding(present: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(present)

        def draw(*args: Any, **kwargs: Any) -> Any:
            given = signature.bind(*args, **kwargs)
            check(given.arguments.get("seed"))
            return present(*args, **kwargs)

        return draw

    def drawing(name: str, present: Callable[..., Any]) -> Callable[..., Any]:
        original = _DRAWS[name]
        signature = inspect.signature(original)

        def draw(*args: Any, **kwargs: Any) -> Any:
            given = signature.bind(*args, **kwargs)
            given.apply_defaults()
            arguments = dict(given.arguments)
            shape, seed = arguments.pop("shape"), arguments.pop("seed")
            check(seed)
            if not isinstance(seed, SeedGenerator) or not is_by_row(shape):
                return present(shape, **arguments, seed=seed)
            value = seed.next()
            plain = unshift(value) if id(seed.state.value) in moved else value
            return _own(
                rows,
                list(shape) if isinstance(shape, list | tuple) else tf.unstack(shape),
                lambda shape: original(shape, **arguments, seed=_Fixed(plain)),
                lambda shape: present(shape, **arguments, seed=_Fixed(value)),
            )

        return draw

    with contextlib.ExitStack() as stack:
        for name in _DRAWS:
            before = getattr(backend.random, name)
            stack.callback(setattr, backend.random, name, before)
            setattr(backend.random, name, drawing(name, before))
        for name in _OTHERS:
            before = getattr(backend.random, name)
            stack.callback(setattr, backend.random, name, before)
            setattr(backend.random, name, guarding(before))
        yield


def _is_open(shape: Any) -> bool:
    """Whether the first dimension of *shape* follows from the batch."""
    if isinstance(shape, list | tuple):
        return bool(shape) and tf.is_tensor(shape[0]) and tf.get_static_value(shape[0]) is None
    if not tf.is_tensor(shape) or not shape.shape.rank or not shape.shape[0]:
        return False
    return tf.get_static_value(shape[0]) is None


def _own(
    rows: NoiseRows, shape: list[Any], draw: Callable[[Any], Any], otherwise: Callable[[Any], Any]
) -> Any:
    """The own rows of what *draw* gives for the batch; *otherwise* where there are no such rows."""
    given = tf.cast(shape[0], tf.int32)
    blocks = given // rows.own
    rest = shape[1:]

    def of_the_batch() -> Any:
        whole = draw([blocks * rows.whole, *rest])
        by_block = tf.reshape(whole, [blocks, rows.whole, *rest])
        own = tf.gather(by_block, rows.indices(), axis=1)
        return tf.reshape(own, [given, *rest])

    return tf.cond(
        tf.equal(blocks * rows.own, given), of_the_batch, lambda: otherwise([given, *rest])
    )


class _Fixed(SeedGenerator):
    """Gives Keras one seed that is drawn already."""

    def __init__(self, value: Any) -> None:  # the base would make a variable
        self._value = value

    def next(self, ordered: bool = True) -> Any:
        return self._value
