"""The traced step of a model: of one update, or with exchanges in the middle of its graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from matex import keras_hooks
from matex.errors import NotShareable, SeveralUpdatesFound
from matex.steps.services import StepSource
from matex.steps.several_updates_step import SeveralUpdatesStep
from matex.steps.silence import unheard
from matex.steps.step import Step
from matex.steps.user_code import attempted

__all__ = ["AnyStep", "trace_step"]

AnyStep = Step | SeveralUpdatesStep


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
    exchanges_inside = options.get("sums_gradients", True) and not model.run_eagerly

    def several() -> SeveralUpdatesStep:
        return SeveralUpdatesStep(
            model,
            source.signature,
            as_data=source.as_data,
            scales_rate=options.get("scales_rate", False),
            most_rows=options.get("most_rows"),
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
