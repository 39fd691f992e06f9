"""TensorFlow's random draws for a rank's rows, equal to those of one process."""

from __future__ import annotations

import contextlib
import inspect
import math
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import tensor_util

from matex.keras_hooks.drawn_rows import NoiseRows, RowAxis
from matex.keras_hooks.noise_state import noise_counter
from matex.keras_hooks.philox_rows import rows_from, rows_of_draw

__all__ = ["NOISE_SCOPE", "ROWS_DRAWN", "RowDraws"]

#: Part of the names of all operations that draw where rows were told.
NOISE_SCOPE = "rows_of_noise"

#: Last part of the name of a tensor with the number of rows that are drawn.
ROWS_DRAWN = "rows_drawn"

_PHILOX = 1  # TensorFlow's number of the algorithm


class RowDraws:
    """Random draws of one step that is being traced or run. Local.

    Args:
        rows: rows that are computed.
        axes: rows in the draws, in the order of the trace, see
            :func:`~matex.keras_hooks.rows_of_noise`.
    """

    def __init__(self, rows: NoiseRows, axes: list[RowAxis | None]) -> None:
        self.rows = rows
        self._graph = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
        if self._graph is None and int(rows.own) > 1:
            axes.clear()  # a step in Python may draw otherwise each time
        self._axes = axes
        self._fills = not axes
        self._known_axes = iter(list(axes))
        self._indices: Any = None
        self._is_plain = False
        self._state: Any = None
        self.drawn_by_state = 0

    def by_place(self, present: Callable[..., Any]) -> Callable[..., Any]:
        """*present*, a draw by key and counter, for the rank's rows."""
        signature = inspect.signature(present)

        def draw(*args: Any, **kwargs: Any) -> Any:
            with tf.name_scope(NOISE_SCOPE):
                given = signature.bind(*args, **kwargs)
                given.apply_defaults()
                given.arguments["name"] = None  # an integer's leads out of the scope
                if self._is_plain:
                    return present(*given.args, **given.kwargs)
                shape = tf.cast(given.arguments["shape"], tf.int32)
                return self._drawn(present, given.arguments, self._axis(shape, constant=True))

        return draw

    def by_state(
        self, present: Callable[..., Any], stateless: Callable[..., Any]
    ) -> Callable[..., Any]:
        """*present*, a draw with a hidden state, by *stateless* and the state of the step."""
        signature = inspect.signature(present)

        def draw(*args: Any, **kwargs: Any) -> Any:
            given = signature.bind(*args, **kwargs)
            given.apply_defaults()
            arguments = {**given.arguments, "name": None}  # an integer's leads out of the scope
            shape = tf.cast(arguments["shape"], tf.int32)
            if not self._follows_from_state(shape):
                return present(*args, **kwargs)
            with tf.name_scope(NOISE_SCOPE):
                axis = self._axis(shape, constant=True)
                has_rows = axis is not None
                key, counter = noise_counter(
                    self._state,
                    arguments.pop("seed"),
                    arguments.pop("seed2"),
                    number=self.drawn_by_state,
                    numbers=self._numbers(shape, has_rows=has_rows),
                    by_row=has_rows,
                )
                self.drawn_by_state += 1
                arguments |= {"key": key, "counter": counter, "alg": _PHILOX}
                return self._drawn(stateless, arguments, axis)

        return draw

    @property
    def follows_state(self) -> bool:
        """Whether a draw here happens once in each step, so that its state can be advanced."""
        is_here = self._graph is not None and tf.compat.v1.get_default_graph() is self._graph
        return is_here and self.rows.state is not None and self.rows.addressable

    def is_open(self, shape: Any, *, constant: bool = False) -> bool:
        """Whether the first dimension of *shape* follows from the batch.

        Args:
            shape: shape of a tensor, a tensor or a list.
            constant: whether it may be a number, that of the rows of all batches. False by default.
        """
        if self._graph is None:
            return bool(len(shape)) and int(shape[0]) == int(self.rows.own)
        static = tensor_util.constant_value_as_shape(tf.cast(tf.convert_to_tensor(shape), tf.int32))
        if not static.rank:
            return False
        return static[0] is None or (constant and self._is_constant(static[0]))

    def count(self, shape: Any) -> Any:
        """Number of rows of this rank in a tensor of *shape*."""
        static = tensor_util.constant_value_as_shape(shape)
        return self.rows.own if self._is_constant(static[0]) else shape[0]

    def neighbours(self, shape: Any) -> int:
        """The number of neighbouring rows of one sample in a draw of *shape*.

        Raises:
            NotShareable: that is not known.
        """
        if self.rows.neighbours is None or self._graph is None:
            return 1
        return self.rows.neighbours(shape)

    def places(self, count: Any, neighbours: int = 1) -> Any:
        """The places in the whole of a tensor's *count* rows, blocks of the rank's rows.

        Args:
            neighbours: number of rows of one sample that lie next to each other.
        """
        if self._indices is None:
            with self._graph.as_default() if self._graph is not None else contextlib.nullcontext():
                self._indices = self.rows.indices()
        row = tf.range(count)
        own = tf.maximum(self.rows.own, 1)
        sample, within = row // neighbours, row % neighbours
        place = sample // own * self.rows.whole + tf.gather(self._indices, sample % own)
        return place * neighbours + within

    @contextlib.contextmanager
    def plainly(self) -> Iterator[None]:
        """Draw inside as TensorFlow does."""
        before, self._is_plain = self._is_plain, True
        try:
            with tf.name_scope(NOISE_SCOPE):
                yield
        finally:
            self._is_plain = before

    def _drawn(
        self, draw: Callable[..., Any], arguments: dict[str, Any], rows_in: RowAxis | None
    ) -> Any:
        """This rank's rows of *draw* applied to *arguments*, or all of it if it has no rows."""
        if rows_in is None:
            return draw(**arguments)
        if rows_in.axis:
            return self._drawn_along(draw, dict(arguments), rows_in.axis)
        arguments = dict(arguments)
        if not self.rows.addressable:
            self.rows.note_shifted("layers that XLA compiles")
            arguments["key"] += tf.cast(self.rows.offset, arguments["key"].dtype)
            return draw(**arguments)
        shape, counter = tf.cast(arguments.pop("shape"), tf.int32), arguments.pop("counter")
        static = tensor_util.constant_value_as_shape(shape)
        dtype = arguments["dtype"] if "dtype" in arguments else arguments["minval"].dtype
        tries = "truncated" in draw.__name__
        count = tf.identity(self.count(shape), name=ROWS_DRAWN)

        def drawn(shape: Any, counter: Any) -> Any:
            with tf.name_scope(NOISE_SCOPE):  # a branch has names of its own
                return draw(shape=shape, counter=counter, **arguments)

        def from_first() -> Any:
            own = tf.concat([tf.reshape(count, (1,)), shape[1:]], 0)
            size = None if None in static[1:] else math.prod(static[1:])
            return rows_from(drawn, counter, self.rows.offset, own, size, dtype, tries=tries)

        def anywhere() -> Any:
            places = self.places(count, rows_in.neighbours)
            return rows_of_draw(drawn, counter, places, shape[1:], dtype, tries=tries)

        is_plain = tf.logical_and(self.rows.is_one_span, tf.equal(count, self.rows.own))
        rows = tf.cond(is_plain, from_first, anywhere)
        first = None if self._is_constant(static[0]) else static[0]
        return tf.ensure_shape(rows, [first, *static[1:]])

    def _drawn_along(self, draw: Callable[..., Any], arguments: dict[str, Any], axis: int) -> Any:
        """This rank's rows, which lie along *axis*, of a draw for the whole batch.

        As many rows as the rank has are a guess here; another number is no number of rows.
        """
        if not self.rows.addressable:
            self.rows.note_shifted("layers that XLA compiles")
            return draw(**arguments)
        shape = tf.cast(arguments.pop("shape"), tf.int32)
        whole = tf.concat([shape[:axis], [self.rows.whole], shape[axis + 1 :]], 0)

        def drawn(shape: Any) -> Any:
            with tf.name_scope(NOISE_SCOPE):  # a branch has names of its own
                return draw(shape=shape, **arguments)

        rows = tf.cond(
            tf.equal(shape[axis], self.rows.own),
            lambda: tf.gather(drawn(whole), self.places(self.rows.own), axis=axis),
            lambda: drawn(shape),
        )
        return tf.ensure_shape(rows, tensor_util.constant_value_as_shape(shape))

    def _follows_from_state(self, shape: Any) -> bool:
        """Whether a draw of *shape* happens once per step, with rows of known size."""
        if not self.follows_state:
            return False
        static = tensor_util.constant_value_as_shape(shape)
        if static.rank is None or None in static[1:]:
            return False
        if self._state is None:
            self._state = tf.identity(self.rows.state.value)
        return True

    def _numbers(self, shape: Any, *, has_rows: bool) -> Any:
        """Number of values of a draw of *shape*, per row or else per step."""
        static = tensor_util.constant_value_as_shape(shape)
        if not has_rows:
            return math.prod(static)
        row = math.prod(static[1:])
        return row * (self.count(shape) // tf.maximum(self.rows.own, 1))

    def _axis(self, shape: Any, *, constant: bool = False) -> RowAxis | None:
        """The batch's rows in the draw of *shape*, next in the trace; None for no rows."""
        for known in self._known_axes:
            return known
        found: RowAxis | None = None
        if self.is_open(shape, constant=constant):
            found = RowAxis(0, self.neighbours(shape))
        elif (axis := self._inner_axis(shape)) is not None:
            found = RowAxis(axis)
        if self._fills:
            self._axes.append(found)
        return found

    def _inner_axis(self, shape: Any) -> int | None:
        """The only axis of unknown size of *shape*, which is along rows, if not all rows share it.

        Models that put time before the batch draw such noise.
        """
        if self._graph is None:
            return None
        static = tensor_util.constant_value_as_shape(shape)
        if not static.rank or static[0] == 1 or static.as_list().count(None) != 1:
            return None
        return static.as_list().index(None)

    def _is_constant(self, count: int | None) -> bool:
        """Whether *count* is the number of rows of all batches."""
        return count is not None and count == self.rows.constant
