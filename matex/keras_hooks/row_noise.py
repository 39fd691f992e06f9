"""Random numbers for the rows of a batch: each rank draws those that one process would."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import tensorflow as tf
from keras.src import backend
from keras.src.random.seed_generator import SeedGenerator
from tensorflow.python.framework import tensor_util
from tensorflow.python.ops import gen_stateless_random_ops_v2 as tensorflow_draws

from matex.errors import NotShareable
from matex.keras_hooks.philox_rows import rows_of_draw

__all__ = ["NOISE_SCOPE", "NoiseRows", "rows_of_noise"]

#: Part of the names of all operations that draw where rows were told.
NOISE_SCOPE = "rows_of_noise"


# TensorFlow's draws under Keras's, whose numbers can be drawn from any place on.
_ADDRESSABLE = (
    "stateless_random_uniform_v2",
    "stateless_random_uniform_int_v2",
    "stateless_random_uniform_full_int_v2",
    "stateless_random_normal_v2",
    "stateless_truncated_normal_v2",
)
# Keras's own functions whose result has a given shape. A trial replaces them by constants
# (quiet.py), but what is cut like the batch need not be: its rows must differ as rows do.
_SHAPED = {
    name: getattr(backend.random, name)
    for name in ("normal", "uniform", "truncated_normal", "randint", "gamma", "binomial", "beta")
}
# Those of them that are drawn for the whole batch, for rows cannot be drawn alone.
_WHOLE = ("gamma", "binomial", "beta")
# Those whose rows are not told by a shape: ranks draw other numbers than one process.
_SHIFTED = ("categorical", "shuffle")


class NoiseRows(NamedTuple):
    """The place of a rank's rows in the batch."""

    own: Any
    """Number of the rank's rows, an int32 scalar."""
    whole: Any
    """Number of the batch's rows, an int32 scalar."""
    indices: Callable[[], Any]
    """Function that gives the places of the rank's rows in the batch, an int32 vector."""
    offset: Any
    """Place of the first of the rank's rows, a scalar."""
    addressable: bool = True
    """Whether rows can be drawn by their places. XLA, which must know sizes, cannot."""


@contextlib.contextmanager
def rows_of_noise(
    rows: NoiseRows, known: list[Any], by_row: list[bool], *, strict: bool = False
) -> Iterator[None]:
    """Trace a train step inside: noise with a row for each of the batch's is cut like the batch.

    Noise is taken to have such rows where its first dimension is not known before the batch is. It
    may also have a whole number of blocks of them: a row for each fake and then for each real one.
    Other noise is the same on all ranks, as it is for all rows in one process.

    Args:
        rows: rows that are computed.
        known: seed variables (of TensorFlow) that the step keeps.
        by_row: flags of the draws, in the order of the trace: whether a draw has such rows. An
            empty list is filled; a filled one is used, where batches have a known size, and where
            a step that runs eagerly has but one row, which may be all that there is.
        strict: whether to refuse generators that are not *known*. False by default.

    Raises:
        NotShareable: a generator was used that is not known, and *strict* is given.
    """
    noise = _Noise(rows, {id(variable) for variable in known}, by_row, strict)
    with contextlib.ExitStack() as stack:

        def replace(module: Any, name: str, make: Callable[..., Any], *arguments: Any) -> None:
            before = getattr(module, name)
            stack.callback(setattr, module, name, before)
            setattr(module, name, make(before, *arguments))

        replace(backend.random, "draw_seed", noise.seeding)
        for name in _ADDRESSABLE:
            replace(tensorflow_draws, name, noise.by_place)
        for name in _SHAPED:
            replace(backend.random, name, noise.shaped, name)
        for name in _SHIFTED:
            replace(backend.random, name, noise.shifted)
        yield


class _Noise:
    """The substitutes of the random functions while one step is traced."""

    def __init__(self, rows: NoiseRows, known: set[int], by_row: list[bool], strict: bool) -> None:
        self._rows = rows
        self._known = known
        self._strict = strict
        self._graph = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
        if self._graph is None and int(rows.own) > 1:
            by_row.clear()  # a step in Python may draw otherwise each time
        self._by_row = by_row
        self._fills = not by_row
        self._flags = iter(list(by_row))
        self._indices: Any = None
        self._is_plain = False

    def seeding(self, present: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """*present*, which gives the seed of a draw, for generators that are known alone."""

        def seed_of(seed: Any) -> Any:
            is_known = isinstance(seed, SeedGenerator) and (
                isinstance(seed, _Fixed) or id(seed.state.value) in self._known
            )
            if self._strict and not is_known and not isinstance(seed, int):
                raise NotShareable(
                    "train_step draws random numbers from a generator that is no attribute of "
                    "the model"
                )
            return present(seed)

        return seed_of

    def by_place(self, present: Callable[..., Any]) -> Callable[..., Any]:
        """*present*, a draw of TensorFlow's by key and counter, for the rank's rows."""
        signature = inspect.signature(present)
        tries = present.__name__.startswith("stateless_truncated")

        def draw(*args: Any, **kwargs: Any) -> Any:
            with tf.name_scope(NOISE_SCOPE):
                return drawn(*args, **kwargs)

        def drawn(*args: Any, **kwargs: Any) -> Any:
            if self._is_plain:
                return present(*args, **kwargs)
            given = signature.bind(*args, **kwargs)
            given.apply_defaults()
            arguments = dict(given.arguments)
            shape, counter = arguments.pop("shape"), arguments.pop("counter")
            if not self._has_rows(shape):
                return present(shape, counter=counter, **arguments)
            if not self._rows.addressable:
                arguments["key"] += tf.cast(self._rows.offset, arguments["key"].dtype)
                return present(shape, counter=counter, **arguments)
            dtype = arguments["dtype"] if "dtype" in arguments else arguments["minval"].dtype
            shape = tf.cast(shape, tf.int32)
            rows = rows_of_draw(
                lambda shape, counter: present(shape, counter=counter, **arguments),
                counter,
                self._places(shape[0]),
                shape[1:],
                dtype,
                tries=tries,
            )
            return tf.ensure_shape(rows, tensor_util.constant_value_as_shape(shape))

        return draw

    def shaped(self, present: Callable[..., Any], name: str) -> Callable[..., Any]:
        """*present*, Keras's function *name* or what a trial puts in its place, by rows."""
        original = _SHAPED[name]
        signature = inspect.signature(original)

        def draw(*args: Any, **kwargs: Any) -> Any:
            shape = signature.bind(*args, **kwargs).arguments["shape"]
            if not self._is_open(shape):
                return present(*args, **kwargs)
            if name not in _WHOLE or not self._rows.addressable:
                return original(*args, **kwargs)
            given = signature.bind(*args, **kwargs)
            first, *rest = tf.unstack(tf.convert_to_tensor(shape, tf.int32))
            blocks = -(-first // tf.maximum(self._rows.own, 1))
            given.arguments["shape"] = [blocks * self._rows.whole, *rest]
            with self._plainly():
                whole = original(*given.args, **given.kwargs)
            return tf.gather(whole, self._places(first))

        return draw

    def shifted(self, present: Callable[..., Any]) -> Callable[..., Any]:
        """*present*, a function of Keras's, with another seed on each rank."""
        signature = inspect.signature(present)

        def draw(*args: Any, **kwargs: Any) -> Any:
            given = signature.bind(*args, **kwargs)
            seed = backend.random.draw_seed(given.arguments.get("seed"))
            offset = tf.stack([tf.cast(self._rows.offset, seed.dtype), tf.zeros((), seed.dtype)])
            given.arguments["seed"] = _Fixed(seed + offset)
            with self._plainly():
                return present(*given.args, **given.kwargs)

        return draw

    @contextlib.contextmanager
    def _plainly(self) -> Iterator[None]:
        """Draw inside as TensorFlow does."""
        before, self._is_plain = self._is_plain, True
        try:
            with tf.name_scope(NOISE_SCOPE):
                yield
        finally:
            self._is_plain = before

    def _has_rows(self, shape: Any) -> bool:
        """Whether the draw of *shape*, the next one of the trace, has rows of the batch."""
        flag = next(self._flags, None)
        if flag is None:
            flag = self._is_open(shape)
            if self._fills:
                self._by_row.append(flag)
        return flag

    def _is_open(self, shape: Any) -> bool:
        """Whether the first dimension of *shape* follows from the batch."""
        if self._graph is None:
            return bool(len(shape)) and int(shape[0]) == int(self._rows.own)
        shape = tensor_util.constant_value_as_shape(tf.convert_to_tensor(shape, tf.int32))
        return bool(shape.rank) and shape[0] is None

    def _places(self, count: Any) -> Any:
        """The places in the whole of a tensor's *count* rows, blocks of the rank's rows."""
        if self._indices is None:
            with self._graph.as_default() if self._graph is not None else contextlib.nullcontext():
                self._indices = self._rows.indices()
        row = tf.range(count)
        own = tf.maximum(self._rows.own, 1)
        return row // own * self._rows.whole + tf.gather(self._indices, row % own)


class _Fixed(SeedGenerator):
    """Gives Keras one seed that is drawn already."""

    def __init__(self, value: Any) -> None:  # the base would make a variable
        self._value = value

    def next(self, ordered: bool = True) -> Any:
        return self._value
