"""The control vector: facts about the rows of a contribution, passed to the graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from matex.exchange.layout import Header
from matex.partition.spans import Span

__all__ = [
    "Control",
    "control_spec",
    "denominators_in",
    "header_in",
    "indices_in",
    "is_one_span",
    "offset_in",
    "placed_in",
    "rows_in",
    "weight_in",
]

_FACTS = 4  # elements before the header: fields of Control, and the number of spans
_END = _FACTS + len(Header._fields)


class Control(NamedTuple):
    """Facts about the samples of a contribution."""

    weight: float
    """Number of local samples / number of samples of the step."""
    sample_offset: float
    """Position of the first sample in the step."""
    batch_rows: float
    """Number of samples of the step."""
    header: Header
    spans: Sequence[Span]
    """Intervals of the samples in the step, in their order."""
    denominators: Sequence[float] = ()
    """Divisors of the losses of the whole step, see :meth:`Step.denominators`."""

    def array(self) -> np.ndarray:
        """Control vector: float64, shape (4 + header + denominators + 2 * spans,)."""
        facts = [self.weight, self.sample_offset, self.batch_rows, len(self.spans)]
        ends = [end for span in self.spans for end in span]
        return np.array([*facts, *self.header, *self.denominators, *ends], np.float64)


def control_spec() -> tf.TensorSpec:
    """Specification of :meth:`Control.array`."""
    return tf.TensorSpec((None,), tf.float64)


def weight_in(control: Any) -> Any:
    """Share of the tensor *control*'s samples in those of the step; a scalar."""
    return control[0]


def offset_in(control: Any) -> Any:
    """Position in the step of the first sample of the tensor *control*; a scalar."""
    return control[1]


def header_in(control: Any) -> Any:
    """Header in the tensor *control*."""
    return control[_FACTS:_END]


def rows_in(control: Any) -> Any:
    """Number of the step's samples in the tensor *control*; int32."""
    return tf.cast(control[2], tf.int32)


def indices_in(control: Any) -> Any:
    """Position in the step of each sample of the tensor *control*; an int32 vector."""
    ends = tf.reshape(tf.cast(control[-_length_of_spans(control) :], tf.int32), (-1, 2))
    indices: Any = tf.ragged.range(ends[:, 0], ends[:, 1]).values
    return indices


def is_one_span(control: Any) -> Any:
    """Whether the samples of the tensor *control* are consecutive in the step; a scalar."""
    return control[3] <= 1


def denominators_in(control: Any) -> Any:
    """Denominators in the tensor *control*; a float64 vector.

    In a graph further elements may follow them: XLA cannot slice by values.
    """
    if tf.executing_eagerly():
        return control[_END : control.shape[0] - int(_length_of_spans(control))]
    return control[_END:]


def _length_of_spans(control: Any) -> Any:
    return 2 * tf.cast(control[3], tf.int32)


def placed_in(control: Any, tensor: Any, rows: int | None) -> Any:
    """Rows of *tensor*, which the tensor *control* describes, in their places of the step.

    Args:
        rows: number of rows of the step; the others are zero (integers if *tensor* is boolean).
    """
    places = tf.expand_dims(indices_in(control), 1)
    whole = [rows, *tensor.shape[1:]]
    if tensor.dtype.is_bool:
        tensor = tf.cast(tensor, tf.int32)
    return tf.ensure_shape(tf.scatter_nd(places, tensor, whole), whole)
