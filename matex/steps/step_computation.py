"""The two halves of a training step: this rank's contribution, and the update by the sum.

Both run eagerly or are traced, by :mod:`matex.steps.step_functions`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import tensorflow as tf

from matex import keras_hooks
from matex.errors import NotShareable
from matex.exchange.layout import Header, Layout, segment_of
from matex.keras_hooks.rows import known_rows
from matex.partition.slot_capacity import SlotCapacity
from matex.steps.auxiliary_part import auxiliary_vector
from matex.steps.control import header_in, offset_in, weight_in
from matex.steps.embedding_rows import EmbeddingRows, from_row, places_of
from matex.steps.forward_pass import ForwardPass
from matex.steps.recorder import Recorder

__all__ = ["Batch", "Parts", "StepComputation", "with_learning_rate"]

Batch = tuple[Any, ...]
Parts = list[Any]


class StepComputation:
    """Contribution and commit of one model's step. Local.

    Args:
        model: built model, with built metrics and optimizer.
        as_data: function from a batch to the argument of ``train_step``.
        sums_gradients: whether gradients are exchanged; else the update uses the mean gradient over
            this rank's own rows, 0 if it has none.
        scales_rate: whether updates use the header's ``rate_factor`` times the learning rate.
        capacity: slots for the largest batch so far, if gradients of embeddings may be slices.
        rows: number of rows of each batch, for a step that may return rows; None by default.

    ``forward`` is the pass that computes the contribution.
    """

    def __init__(
        self,
        model: Any,
        as_data: Callable[[Batch], Any],
        *,
        sums_gradients: bool,
        scales_rate: bool,
        capacity: SlotCapacity | None,
        rows: int | None = None,
    ) -> None:
        self._model = model
        self.sums_gradients = sums_gradients
        self.scales_rate = scales_rate
        self.capacity = capacity if sums_gradients else None
        self.embedding_rows = EmbeddingRows(self.capacity)
        self.layout: Layout | None = None
        self.forward = ForwardPass(model, as_data, rows=rows, shares_draws=sums_gradients)
        self.named = self.forward.auxiliary.named
        self._recorder = Recorder(model.optimizer)

    @property
    def exchanged(self) -> Layout | None:
        """Part of the layout that the ranks exchange."""
        if self.layout is None or self.sums_gradients:
            return self.layout
        return replace(self.layout, gradients=())

    def contribution(self, batch: Batch, control: Any) -> Parts:
        """Compute the parts that the samples of *batch* add to the step; changes no variable."""
        control = tf.convert_to_tensor(control)
        weight, sample_offset = weight_in(control), offset_in(control)
        header = with_learning_rate(header_in(control), self._model.optimizer)
        recorder, forward = self._recorder, self.forward
        known = None if tf.executing_eagerly() else known_rows(batch)
        passed = forward.run(
            batch,
            control,
            weight,
            recorder.recording(weight),
            check=lambda: recorder.check_order(forward.state.others),
            addressable=not self._model.jit_compile,
            rows=known,
        )
        most_rows = 0 if self.capacity is None else self.capacity.rows
        placed = from_row(sample_offset, keras_hooks.rows_traced(batch), most_rows)
        values, places = self.embedding_rows.fill(
            recorder.gradients, recorder.variables, batch, placed
        )
        dtype = self._lay_out(values, places, known).dtype
        weight = tf.cast(weight, dtype)
        gradients = [tf.cast(value, dtype) for value in values]
        if not recorder.scaled:
            gradients = [g * weight for g in gradients]
        if not self.sums_gradients and not keras_hooks.traits_of(self._model.optimizer).scales_loss:
            header = _with_nonfinite(header, gradients)
        vector = auxiliary_vector(passed, header, weight=weight, dtype=dtype, places=places)
        return [*gradients, vector]

    def commit(self, parts: Parts) -> dict[str, Any]:
        """Apply the exchanged parts, and return the step's logs."""
        # The second fence: nothing runs before the exchange has succeeded. It must be inside this
        # function: a fence around the call disappears when TensorFlow inlines it, and operations
        # that take no data from the parts (the optimizer's counter) would run beside the exchange.
        with tf.control_dependencies(parts[-1:]):
            return self._apply(parts)

    def _apply(self, parts: Parts) -> dict[str, Any]:
        layout, model = self.layout, self._model
        assert layout is not None
        *gradients, auxiliary = parts
        if not self.sums_gradients:
            *gradients, own = gradients
            gradients = _mean_of_own(gradients, own, auxiliary)
        *rest, header = tf.split(auxiliary, layout.auxiliary_sizes)
        means, sums = rest[: len(layout.means)], rest[len(layout.means) :]
        reduced = Header(*tf.unstack(header))
        keras_hooks.set_learning_rate(model.optimizer, reduced.learning_rate)
        self.forward.advance_noise(reduced.samples)
        factor = reduced.rate_factor if self.scales_rate else None
        scaled = keras_hooks.scaled_learning_rate(model.optimizer, factor)
        with self.forward.python.as_noted(), keras_hooks.updating(), scaled:
            whole = [tf.cast(g, s.dtype) for g, s in zip(gradients, layout.gradients, strict=True)]
            counted = len(self.forward.auxiliary.segments()[1])
            self._recorder.apply(self.embedding_rows.empty(whole, sums[counted:]))
        return self.forward.auxiliary.commit(means, sums[:counted])

    def _lay_out(self, gradients: Parts, places: Parts, rows: int | None) -> Layout:
        means, sums = self.forward.auxiliary.segments()
        slots = self.embedding_rows
        named = zip(gradients, slots.in_order(self._recorder.names), strict=True)
        layout = Layout(
            gradients=tuple(segment_of("gradient of", gradient, name) for gradient, name in named),
            means=means,
            sums=(*sums, *places_of(places)),
            slots=slots.count,
        )
        if rows is not None and self.layout not in (None, layout):
            raise NotShareable(f"train_step computes something else for {rows} rows")
        self.layout = layout
        return layout


def with_learning_rate(header: Any, optimizer: Any) -> Any:
    """Header with the learning rate in place of the leader's 1; other ranks have 0 there."""
    rate = keras_hooks.learning_rate_variable(optimizer)
    if rate is None:
        return header
    is_rate = [name == "learning_rate" for name in Header._fields]
    return header * tf.where(is_rate, tf.cast(rate, header.dtype), tf.ones((), header.dtype))


def _mean_of_own(gradients: Parts, own: Any, total: Any) -> Parts:
    """*gradients*, weighted by own / total samples, rescaled to the mean over own samples."""
    samples = Header._fields.index("samples") - len(Header._fields)
    scale = tf.math.divide_no_nan(tf.cast(total[samples], own.dtype), own[samples])
    return [gradient * tf.cast(scale, gradient.dtype) for gradient in gradients]


def _with_nonfinite(header: Any, gradients: Parts) -> Any:
    """Header with its flag set if a gradient is not finite; the exchange sees the header only."""
    finite = [tf.reduce_all(tf.math.is_finite(gradient)) for gradient in gradients]
    is_flag = [name == "nonfinite" for name in Header._fields]
    found = tf.reduce_any(tf.logical_not(finite)) & is_flag
    return header + tf.cast(found, header.dtype)
