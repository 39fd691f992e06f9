"""Whether a step with several updates adds up: parts of a few rows, exchange by exchange."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from matex import keras_hooks
from matex.errors import NotShareable
from matex.exchange import Header, Layout
from matex.sources.interface import GlobalBatch
from matex.steps.control import Control
from matex.steps.separability import CUT, Value, telling_rows, values_of
from matex.steps.several_updates_step import SeveralUpdatesStep
from matex.steps.silence import unheard
from matex.steps.user_code import attempted

__all__ = ["find_inseparable_update"]

Parts = dict[int, list[np.ndarray]]


def find_inseparable_update(step: SeveralUpdatesStep, batch: GlobalBatch) -> str:
    """The reason why *step* does not add up on some rows of *batch*; "" where it does. Local.

    Each part of the rows is computed with the sums of the whole, so that every update
    starts from the weights that it would start from. Nothing is changed afterwards.
    """
    rows = telling_rows(batch)
    try:
        broken = "train_step fails on a part of a batch"
        with keras_hooks.generators_kept(), unheard(), attempted(broken):
            return _differing(step, rows)
    except NotShareable as reason:
        return str(reason)


def _differing(step: SeveralUpdatesStep, rows: Any) -> str:
    count = len(tf.nest.flatten(rows)[0])
    cut = min(CUT, count - 1)
    quiet = step.quiet()
    rollback = step.rollback
    denominators = step.denominators(rows)
    rollback.begin()

    def made(lo: int, hi: int, given: Parts | None = None) -> tuple[Parts, list[np.ndarray]]:
        part = tf.nest.map_structure(lambda tensor: tensor[lo:hi], rows)
        header = Header(learning_rate=1.0, rate_factor=1.0)
        control = Control(
            (hi - lo) / count, float(lo), float(count), header, [(lo, hi)], denominators
        ).array()
        try:
            auxiliary, parts = step.exchanges.trial(lambda: quiet(part, control), given)
            return {**parts, len(step.exchanges.layouts): [auxiliary]}, rollback.values()
        finally:
            rollback.put_back()

    try:
        whole, after = made(0, count)
        pieces = [made(0, cut, whole), made(cut, count, whole)]
    finally:
        rollback.end()
    how = f"for {count} rows at once and for {cut} and {count - cut} of them added up"
    assert step.layout is not None
    layouts = [*step.exchanges.layouts, step.layout]
    for number, layout in enumerate(layouts):
        if any((number in parts) != (number in whole) for parts, _ in pieces):
            return "train_step makes an update for some rows of a batch and not for others"
        if number not in whole:  # an update that is not made in each step
            continue
        worst = _worst(
            layout, whole[number], [parts[number] for parts, _ in pieces], step.tolerance
        )
        if worst is not None:
            return (
                f"train_step does not add up over rows: the {worst.name} is {worst.figures} {how}"
            )
    # What is exchanged is the same in all; so must be what follows from it.
    step.exchanges.tried |= set(whole) & set(range(len(step.exchanges.layouts)))
    if any(_differ(after, later, step.tolerance) for _, later in pieces):
        return "train_step changes a variable by other rows than it updates its weights by"
    return ""


def _worst(
    layout: Layout, whole: list[np.ndarray], parts: list[list[np.ndarray]], tolerance: float
) -> Value | None:
    """The first value that does not add up."""
    found = values_of(layout, whole, parts)
    return next((value for value in found if value.differs(tolerance)), None)


def _differ(one: list[np.ndarray], other: list[np.ndarray], tolerance: float) -> bool:
    """Whether variables have other values after the same updates."""
    for a, b in zip(one, other, strict=True):
        if a.dtype.kind not in "fiu" or not np.isfinite(a).all():
            continue
        norm = float(np.linalg.norm(a.astype(np.float64)))
        gap = float(np.linalg.norm(a.astype(np.float64) - b.astype(np.float64)))
        if gap > tolerance * norm + 1e-12:
            return True
    return False
