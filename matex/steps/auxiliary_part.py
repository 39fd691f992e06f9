"""The auxiliary part of a step, beside gradients and update: metrics, statistics, logs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from matex import keras_hooks
from matex.errors import NotShareable
from matex.exchange.layout import Segment
from matex.keras_hooks.metrics import FlatLogs, names_of
from matex.steps.forward_state import ForwardState
from matex.steps.graphs.graph_inspection import depends_on

__all__ = ["RETURNED", "VALUE", "AuxiliaryPart", "PassResult", "auxiliary_vector"]

RETURNED = "matex_returned_value"
"""Part of the name of an operation whose result a step returns."""

VALUE = "value of "
"""Prefix of the names of values that a step returns."""

#: Function from a tensor of the rank's rows to one of the batch's rows, zero in the other rows.
Placed = Callable[[Any], Any]


class PassResult(NamedTuple):
    """This rank's part of what a step computes beside gradients."""

    means: list[Any]
    """Means over rows: changes of statistics, and values that the step returns."""
    sums: list[Any]
    """Sums over rows: increments of metric states, and values that the step returns."""
    restored: list[Any]
    """Results of the operations after which all variables are as before the pass."""


class _Returned(NamedTuple):
    """A tensor that a step returns and that is not a metric's result."""

    segment: Segment
    dtype: Any


class AuxiliaryPart:
    """Logs and changing variables of a step: this rank's part, and the sum over ranks. Local.

    ``summed`` names the values that are summed over ranks; the others are means over rows.

    Args:
        state: variables that the forward pass changes.
    """

    def __init__(self, state: ForwardState) -> None:
        self._state = state
        self._log_names: list[str] = []
        self._names: Mapping[str, Any] = {}
        self._means: dict[str, _Returned] = {}
        self._sums: dict[str, _Returned] = {}
        self._sources: dict[str, tuple[Any, str | None]] = {}
        self._variables: dict[str, Any] = {}
        self._rows: set[str] = set()
        self.summed: set[str] = set()

    def note(
        self,
        logs: Mapping[str, Any],
        results: keras_hooks.Results,
        placed: Placed | None = None,
        *,
        rows: int | None = None,
    ) -> tuple[list[Any], list[Any]]:
        """Record the origins of the *logs* of a traced step.

        Values with a row for each of the batch's show in a graph for any number of rows. In a later
        graph of the same step for a known number they are the same ones.

        Variables among them are read at the end of the step, after the update, as TensorFlow reads
        what a function returns.

        Args:
            logs: values that the step returned.
            results: results of its metrics.
            placed: function that puts rows in their places of the batch; None, the default, if no
                logs have rows.
            rows: number of rows, if the graph is for that number alone; None by default.

        Returns:
            Values that a step returns beside metric results: means over rows, and sums.

        Raises:
            NotShareable: a value depends on a metric's state and is not its result, or has rows of
                unknown shape.
        """
        self._names = names_of(logs)
        logs = keras_hooks.flat_logs(logs)
        sources = {name: results.source_of(value) for name, value in logs.items()}
        self._log_names = list(logs)
        self._sources = {name: source for name, source in sources.items() if source is not None}
        self._variables = {n: value for n, value in logs.items() if keras_hooks.is_variable(value)}
        others = logs.keys() - self._sources.keys() - self._variables.keys()
        extra = {n: tf.identity(logs[n], name=RETURNED) for n in logs if n in others}
        if rows is None:
            shapes = {name: value.shape for name, value in extra.items()}
            self._rows = {n for n, shape in shapes.items() if shape.rank and shape[0] is None}
        self._means, self._sums = {}, {}
        means, sums = [], []
        for name, value in extra.items():
            segment_name = VALUE + name
            self._check(name, value, results)
            if placed is not None and name in self._rows:
                whole = placed(value)
                self._sums[name] = _noted(segment_name, whole, value.dtype)
                sums.append(whole)
            elif segment_name in self.summed:
                self._sums[name] = _noted(segment_name, value, value.dtype)
                sums.append(value)
            else:
                self._means[name] = _noted(segment_name, value, value.dtype)
                means.append(value)
        return means, sums

    def segments(self) -> tuple[tuple[Segment, ...], tuple[Segment, ...]]:
        """Segments *means* and *sums* of the layout."""
        means, sums = self._state.segments()
        return (
            (*means, *(value.segment for value in self._means.values())),
            (*sums, *(value.segment for value in self._sums.values())),
        )

    def named(self, logs: Mapping[str, Any]) -> FlatLogs:
        """*logs* of :meth:`commit` with the names that the step gave them."""
        return FlatLogs(logs, self._names)

    def commit(self, means: list[Any], sums: list[Any]) -> dict[str, Any]:
        """Apply the exchanged means and sums, given as flat vectors; return the step's logs."""
        means, extra_means = _separated(means, len(self._means))
        sums, extra_sums = _separated(sums, len(self._sums))
        self._state.add(means, sums)
        logs = {name: keras_hooks.Results.now(source) for name, source in self._sources.items()}
        logs |= {n: keras_hooks.tensor_of(variable) for n, variable in self._variables.items()}
        values = [*self._means.items(), *self._sums.items()]
        for (name, value), total in zip(values, (*extra_means, *extra_sums), strict=True):
            logs[name] = _as_it_was(value, total)
        return {name: logs[name] for name in self._log_names}

    def _check(self, name: str, value: Any, results: keras_hooks.Results) -> None:
        """Refuse a *value* that depends on a metric's state, which starts from zero in every step.

        For a value that was computed eagerly this is unknown.
        """
        if tf.executing_eagerly():
            if results.are_known:
                raise NotShareable(
                    f"it runs eagerly and returns {name}, which is no metric's result and may be "
                    "made of one"
                )
        elif depends_on(value, self._state.sums):
            raise NotShareable(f"it returns {name}, which is made of a metric and not its result")


def _noted(name: str, value: Any, dtype: Any) -> _Returned:
    shape = value.shape
    is_number = dtype.is_floating or dtype.is_integer or dtype.is_bool
    if not shape.is_fully_defined() or not is_number:
        raise NotShareable(f"it returns a tensor of shape {shape} and dtype {dtype.name}")
    # The sum of integers is exact in float64 up to 2**53.
    wide = dtype == tf.float64 or dtype.is_integer
    return _Returned(Segment(name, tuple(shape), "float64" if wide else "float32"), dtype)


def _separated(values: list[Any], last: int) -> tuple[list[Any], list[Any]]:
    """*values* without the *last* ones, and the *last* ones."""
    cut = len(values) - last
    return list(values[:cut]), list(values[cut:])


def _as_it_was(value: _Returned, total: Any) -> Any:
    shaped = tf.reshape(total, value.segment.shape)
    if value.dtype.is_integer or value.dtype.is_bool:
        shaped = tf.round(shaped)
    return tf.cast(shaped, value.dtype)


def auxiliary_vector(
    passed: PassResult, header: Any, *, weight: Any, dtype: Any, places: Sequence[Any] = ()
) -> Any:
    """Vector of *dtype* with means, sums and header, in the order of the layout.

    Args:
        passed: this rank's means and sums.
        header: header of the rank's contribution.
        weight: scalar, local rows / rows of the step.
        dtype: dtype of the exchange.
        places: sums of the layout that follow those of the pass; none by default.
    """
    weight = tf.cast(weight, dtype)
    means = [_flat(mean, dtype) * weight for mean in passed.means]
    counted = [_flat(value, dtype) for value in (*passed.sums, *places)]
    # The first fence: the auxiliary part, and so the exchange, waits for every side effect.
    with tf.control_dependencies([r.op for r in passed.restored if not tf.executing_eagerly()]):
        return tf.concat([*means, *counted, tf.cast(header, dtype)], 0)


def _flat(tensor: Any, dtype: Any) -> Any:
    """*tensor* as a vector of *dtype*."""
    return tf.reshape(tf.cast(tensor, dtype), [-1])
