"""Python that the trace of a step has read: a factor of the loss, a dropout rate, ``trainable``.

Plain Keras traces its train function in the first step, when callbacks have begun, and again only
after ``make_train_function(force=True)``; ``tf.function`` does so in its first call. What the
script changes in Python later has no effect. Here a step is traced before the callbacks begin, and
parts of it once more later: for a frequent number of rows, or for more slots.
"""

from __future__ import annotations

import contextlib
from typing import Any

from matex.keras_hooks.models import is_made_once, set_by_fits
from matex.steps.script_code.script_state import ScriptState

__all__ = ["TracedPython"]


class TracedPython:
    """Python that the graphs of one step read. Local.

    With ``run_eagerly`` every step reads it anew, and nothing is noted.

    Args:
        model: model of the step.

    ``has_stepped`` is whether the fit has made a step with these graphs, so that later changes in
    Python have no effect; it is equal on all ranks.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._noted: ScriptState | None = None
        self.has_stepped = False

    def note(self) -> None:
        """Note the Python that a trace would read now."""
        model = self._model
        if not model.run_eagerly:
            reached = (model, getattr(model, "code", None))
            self._noted = ScriptState(reached, set_by_fits, is_made_once, with_keras=True)

    @property
    def changed(self) -> str:
        """Name of something that a trace would read otherwise now; "" if there is nothing."""
        return "" if self._noted is None else self._noted.changed

    def as_noted(self) -> contextlib.AbstractContextManager[None]:
        """Context in which a trace reads what the first one has read, and leaves nothing changed.

        Without a note it changes nothing.
        """
        if self._noted is None:
            return contextlib.nullcontext()
        return self._noted.put_back_within()
