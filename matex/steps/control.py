"""The facts about the rows of a contribution, which go into the graph beside them."""

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
    "rows_in",
]

_FACTS = 4  # before the header: those of Control, and the number of spans
_END = _FACTS + len(Header._fields)


class Control(NamedTuple):
    """Facts about the samples of a contribution, beside the samples."""

    weight: float
    """Local samples / samples of the step."""
    sample_offset: float
    """Place of the first sample in the step."""
    batch_rows: float
    """Samples of the step."""
    header: Header
    spans: Sequence[Span]
    """The places of the samples in the step, in their order."""
    denominators: Sequence[float] = ()
    """What the losses of the whole step are divided by, see :meth:`Step.denominators`."""

    def array(self) -> np.ndarray:
        """float64, shape (4 + header + denominators + 2 * spans,)."""
        facts = [self.weight, self.sample_offset, self.batch_rows, len(self.spans)]
        ends = [end for span in self.spans for end in span]
        return np.array([*facts, *self.header, *self.denominators, *ends], np.float64)


def control_spec() -> tf.TensorSpec:
    """The specification of :meth:`Control.array`."""
    return tf.TensorSpec((None,), tf.float64)


def header_in(control: Any) -> Any:
    """The header of *control*, a tensor."""
    return control[_FACTS:_END]


def rows_in(control: Any) -> Any:
    """The number of the step's samples in *control*, a tensor; int32."""
    return tf.cast(control[2], tf.int32)


def indices_in(control: Any) -> Any:
    """The place in the step of each sample of *control*, a tensor; an int32 vector."""
    ends = tf.reshape(tf.cast(control[-_length_of_spans(control) :], tf.int32), (-1, 2))
    indices: Any = tf.ragged.range(ends[:, 0], ends[:, 1]).values
    return indices


def is_one_span(control: Any) -> Any:
    """Whether the samples of *control*, a tensor, follow one another in the step; a scalar."""
    return control[3] <= 1


def denominators_in(control: Any) -> Any:
    """The denominators in *control*, a tensor; a float64 vector.

    In a graph more may follow them: XLA cannot cut where the values say.
    """
    if tf.executing_eagerly():
        return control[_END : control.shape[0] - int(_length_of_spans(control))]
    return control[_END:]


def _length_of_spans(control: Any) -> Any:
    return 2 * tf.cast(control[3], tf.int32)
