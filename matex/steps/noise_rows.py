"""Rows for which a step draws random numbers, as its graph knows them. Local."""

from __future__ import annotations

from typing import Any

from matex import keras_hooks
from matex.steps.control import indices_in, is_one_span, offset_in, rows_in
from matex.steps.separability.row_layout import neighbours

__all__ = ["noise_rows"]


def noise_rows(batch: Any, control: Any, **options: Any) -> keras_hooks.NoiseRows:
    """The rows of *batch*, whose places in the whole batch are in *control*.

    Args:
        batch: this rank's rows.
        control: control vector of the step.
        options: fields of :class:`matex.keras_hooks.NoiseRows` beside the places.
    """
    return keras_hooks.NoiseRows(
        keras_hooks.rows_traced(batch),
        rows_in(control),
        lambda: indices_in(control),
        offset_in(control),
        is_one_span(control),
        neighbours=neighbours,
        **options,
    )
