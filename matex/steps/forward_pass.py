"""The forward and backward pass of a step, which leaves the model as it was."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from matex import keras_hooks
from matex.keras_hooks.rows import known_rows
from matex.steps.auxiliary_part import AuxiliaryPart, PassResult
from matex.steps.control import placed_in
from matex.steps.forward_state import ForwardState
from matex.steps.loss_parts import LossParts
from matex.steps.noise_rows import noise_rows
from matex.steps.script_code.traced_python import TracedPython

__all__ = ["ForwardPass"]


class ForwardPass:
    """Passes of one model's step over rows of a batch, eager or traced. Local.

    ``state`` are the variables that a pass changes, ``auxiliary`` is what the step has beside
    gradients and update. ``denominators`` are the loss denominators of the newest pass, tensors of
    its graph if it is traced. ``shifted`` names the random functions whose rows are drawn otherwise
    than in one process. ``python`` is the Python that traces read.

    Args:
        model: built model, with built metrics.
        as_data: function from a batch to the argument of ``train_step``.
        rows: number of rows of each batch, for a step that may return rows; None by default.
        shares_draws: whether draws by TensorFlow's own seeds are those of one process, True by
            default.
        strict: whether to refuse random generators that the step does not keep, False by default.
    """

    def __init__(
        self,
        model: Any,
        as_data: Callable[[Any], Any],
        *,
        rows: int | None = None,
        shares_draws: bool = True,
        strict: bool = False,
    ) -> None:
        self._model = model
        self._as_data = as_data
        self._rows = rows
        self._strict = strict
        self.shifted: set[str] = set()
        self.python = TracedPython(model)
        self.state = ForwardState(model)
        self.auxiliary = AuxiliaryPart(self.state)
        self.denominators: list[Any] = []
        noise_state = keras_hooks.noise_state(model)
        self._noise_state = noise_state if shares_draws else None
        self._noise_axes: list[keras_hooks.RowAxis | None] = []
        self._losses = LossParts(model)
        self._advance_noise: Callable[[Any], None] | None = None

    def run(
        self,
        batch: Any,
        control: Any,
        weight: Any,
        within: AbstractContextManager[None],
        *,
        check: Callable[[], None] = lambda: None,
        addressable: bool = True,
        rows: int | None = None,
    ) -> PassResult:
        """Run or trace ``train_step`` on the rows of *batch*, and restore what it changed.

        Args:
            batch: rows of this rank.
            control: control vector of the rows.
            weight: scalar, local rows / rows of the step.
            within: context that takes the gradients from the step.
            check: function called after the pass, which may refuse it; none by default.
            addressable: see :class:`matex.keras_hooks.NoiseRows`.
            rows: number of rows, if returned rows are to be known in a graph for that number alone;
                see :meth:`AuxiliaryPart.note`. None by default.
        """
        state = self.state
        saved = state.save()
        state.prepare()
        with state.undone_on_error(saved):
            logs, results = self._train_step(batch, control, weight, within, addressable)
            check()
            averaged, sums = state.changes(saved)
            extra, added = self.auxiliary.note(logs, results, self._placed(control), rows=rows)
        return PassResult([*averaged, *extra], [*sums, *added], state.restore(saved))

    def _train_step(
        self,
        batch: Any,
        control: Any,
        weight: Any,
        within: AbstractContextManager[None],
        addressable: bool,
    ) -> tuple[Any, Any]:
        """Logs of the step, and results that it took from metrics."""
        rows = noise_rows(
            batch,
            control,
            addressable=addressable,
            state=self._noise_state,
            shifted=self.shifted,
            constant=self._rows,
        )
        seeds, axes, strict = self.state.seeds, self._noise_axes, self._strict
        with (
            self.python.as_noted(),
            within,
            self._losses.traced(weight, control, known_rows(batch)) as self.denominators,
            keras_hooks.rows_of_noise(rows, seeds, axes, strict=strict) as advance_noise,
            keras_hooks.recorded_results(self._model) as results,
        ):
            logs = keras_hooks.with_functions_inline(self._model.train_step, self._as_data(batch))
        self._advance_noise = self._advance_noise or advance_noise  # a trial draws fewer numbers
        return logs, results

    def _placed(self, control: Any) -> Callable[[Any], Any] | None:
        """Function that puts returned rows in their places of the batch, if there may be any."""
        rows = self._rows
        return None if rows is None else lambda tensor: placed_in(control, tensor, rows)

    def begin_anew(self) -> None:
        """Let the next pass determine how the states of draws advance."""
        self._advance_noise = None

    def advance_noise(self, samples: Any) -> None:
        """Advance the states of draws by *samples* rows, in the graph of the commit."""
        if self._advance_noise is not None:
            self._advance_noise(samples)
