"""The traced step of a model: of one update, or with exchanges in the middle of its graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import ft
from matex import keras_hooks
from matex.errors import NotShareable, SeveralUpdatesFound
from matex.exchange import GraphExchange
from matex.keras_hooks.noise_state import noise_state
from matex.partition.slot_capacity import SlotCapacity
from matex.steps.script_code.muted_output import unheard
from matex.steps.script_code.user_code import attempted
from matex.steps.services import StepSource
from matex.steps.several_updates_step import SeveralUpdatesStep
from matex.steps.step import Step

__all__ = ["AnyStep", "CompiledStep", "agreed_capacity", "trace_anew", "trace_step"]

AnyStep = Step | SeveralUpdatesStep
"""A step of either kind, for those who make each in a way of its own."""


class CompiledStep(NamedTuple):
    """Functions and buffers of a step, which are kept beyond a fit."""

    step: AnyStep
    exchange: GraphExchange | None = None


def trace_step(
    model: Any, source: StepSource, *, synchronized: Sequence[Any] = (), **options: Any
) -> AnyStep:
    """Trace the step of *model* on batches of *source*; local, and alike on every rank.

    Args:
        model: built model.
        source: source of the batches.
        synchronized: BatchNormalization layers that normalise over the rows of all ranks.
        options: keyword arguments of :class:`Step`.

    Raises:
        NotShareable: the step cannot be split at its optimizers.
    """
    noise_state(model)  # by now: it is matex's own variable
    created: list[None] = []
    with keras_hooks.told_of_variables(lambda: created.append(None)):
        step = _traced(model, source, synchronized=synchronized, **options)
    if created:
        # TensorFlow keeps no such trace either: Python may ask whether an optimizer is built.
        step = _traced(model, source, synchronized=synchronized, **options)
    step.python.note()
    return step


def _traced(
    model: Any, source: StepSource, *, synchronized: Sequence[Any], **options: Any
) -> AnyStep:
    exchanges_inside = options.get("sums_gradients", True) and not model.run_eagerly

    def several() -> SeveralUpdatesStep:
        return SeveralUpdatesStep(
            model,
            source.signature,
            as_data=source.as_data,
            scales_rate=options.get("scales_rate", False),
            capacity=options.get("capacity"),
            synchronized=synchronized,
        )

    step: AnyStep | None = None
    may_draw = True
    try:
        if not synchronized:
            step = Step(model, source.signature, as_data=source.as_data, **options)
            may_draw = step.may_draw
        elif model.run_eagerly:
            raise NotShareable("BatchNormalization is synchronized in a step that runs eagerly")
    except SeveralUpdatesFound:
        if not exchanges_inside:
            raise
    step = several() if step is None else step
    if not exchanges_inside or keras_hooks.adds_up(model):
        return step
    return _at_tapes(step, several, may_draw=may_draw) or step


def trace_anew(
    step: AnyStep,
    model: Any,
    source: StepSource,
    *,
    capacity: SlotCapacity | None = None,
    checked: bool = True,
) -> CompiledStep:
    """Trace *step* of *model* again, because something has changed. Local, alike on every rank.

    The layout of its exchange changes. The new graphs read Python as it is now, unless only the
    capacity has changed.

    Args:
        capacity: capacity for batches, if only that has changed; None, the default, to leave it.
        checked: whether what its checks found still holds, True by default.

    Raises:
        NotShareable: the step cannot be split at its optimizers.
    """
    if capacity is None:
        traced = trace_step(model, source, **step.options)
    else:
        with step.python.as_noted():
            traced = trace_step(model, source, **{**step.options, "capacity": capacity})
        traced.checked.update(step.checked)
    if checked:
        traced.checks = step.checks
        traced.python.has_stepped = step.python.has_stepped
    return CompiledStep(traced)


def agreed_capacity(communicator: ft.Communicator, wanted: SlotCapacity) -> SlotCapacity:
    """Largest capacity that a rank has *wanted*; collective.

    It is the same on all of them if their data are. If these differ, the step's own check of its
    samples raises.
    """
    sizes = communicator.allgather(np.array([wanted.rows, *wanted.values], np.int64)).rows
    rows, *values = np.max(sizes, axis=0).tolist()
    return SlotCapacity(rows, tuple(values))


def _at_tapes(
    step: AnyStep, several: Callable[[], SeveralUpdatesStep], *, may_draw: bool
) -> SeveralUpdatesStep | None:
    """The *step* with exchanges where tapes compute gradients, if only that adds up over rows.

    A ``train_step`` may clip gradients itself, or move weights along them before it computes
    others, as sharpness-aware minimization does.

    Args:
        may_draw: whether the step may draw from the generators of Python and NumPy.
    """
    fails = "train_step cannot be traced without its randomness"
    try:
        with keras_hooks.generators_kept(host=may_draw), unheard(), attempted(fails):
            if not step.inseparable:
                return None
            made = several()
            made.exchange_at_tapes()
            return None if made.inseparable else made
    except NotShareable:  # it has no such tapes, or a trial is going to say what is wrong
        return None
