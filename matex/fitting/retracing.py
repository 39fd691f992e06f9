"""Traces of a fit's step at the times at which plain Keras traces its own."""

from __future__ import annotations

import numpy as np

import ft
from matex.fitting.listeners import FitListener
from matex.steps.end_of_data import EndOfData
from matex.steps.engine import StepEngine
from matex.steps.script_code.traced_python import TracedPython

__all__ = ["Retracing"]


class Retracing(FitListener):
    """Traces the step of a fit again where plain Keras would read the script's Python anew.

    Plain Keras traces in the first step, after callbacks have begun training, an epoch and a batch,
    and again after ``make_train_function(force=True)``. Ranks have traced before, to know whether
    and how the step can be shared, so they trace again if something has changed since.

    Args:
        communicator: ranks of the fit.
        engine: maker of its steps.
        end: maker of the changes at the end of its data.
    """

    def __init__(self, communicator: ft.Communicator, engine: StepEngine, end: EndOfData) -> None:
        self._communicator = communicator
        self._engine = engine
        self._end = end
        self._has_joined = False
        self._is_forced = False

    @property
    def _python(self) -> TracedPython:
        return self._engine.compiled.step.python

    def shapes_changed(self) -> None:
        """Trace again between two steps, because the model's shapes have changed. Local."""
        self._is_forced = False
        self._engine.retrace()
        self._end.drop_trace()

    def train_function_made(self) -> None:
        """Note that Keras has made a train function, whose first step it traces. Local."""
        self._is_forced = self._python.has_stepped

    def joined(self) -> None:
        """Note that this rank joins others, which have made steps already. Local.

        What callbacks change as training begins, the others have read.
        """
        if self._python.changed:
            self._engine.retrace()
        self._has_joined = self._python.has_stepped = True

    def step_begins(self) -> None:
        """Trace again, if something has changed and this step is one that plain Keras traces.

        Collective before such a step, on all ranks but those that join. A rank that joins cannot
        know what the others have read; it leaves if that might be something else.

        Raises:
            NotShareable: the step cannot be shared any more; on every rank.
        """
        if self._has_joined:
            self._first_of_joined()
        if self._python.has_stepped and not self._is_forced:
            return
        own = np.array([self._is_forced or bool(self._python.changed)], np.int64)
        if self._communicator.allgather(own).rows.any():
            self._engine.retrace(checked=False)
            self._end.drop_trace()
        self._is_forced, self._python.has_stepped = False, True

    def _first_of_joined(self) -> None:
        """Read what the others have read, before the first step of a rank that has joined. Local.

        What callbacks do as an epoch begins, they have done here, too.
        """
        self._has_joined = False
        if self._is_forced:
            self._is_forced = False
            self._engine.retrace()
        elif changed := self._python.changed:
            ft.fail_stop(
                f"a rank that joins cannot read what the others read of {changed} in their first "
                "step: it has changed since. Keep what changes in a keras.Variable"
            )
