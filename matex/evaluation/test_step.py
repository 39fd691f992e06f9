"""A model's ``test_step``: the part that ranks may share, and its results."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import Any, NoReturn

import numpy as np

import ft
from matex import keras_hooks
from matex.errors import NotShareable
from matex.evaluation.batch_check import CHANGES, check_counts, put_back
from matex.evaluation.row_check import check_parts
from matex.evaluation.whole_test_step import whole_test_step
from matex.keras_hooks.building import free_of_rows
from matex.keras_hooks.generators import IdleDraws
from matex.keras_hooks.metrics import FlatLogs, as_returned, names_of
from matex.steps.graphs import graph_inspection
from matex.steps.script_code.muted_output import unheard
from matex.steps.script_code.traced_python import TracedPython
from matex.steps.script_code.user_code import attempted
from matex.steps.separability.graph_results import uses
from matex.steps.separability.nonlinear_sums import nonlinear_in_states

__all__ = ["Sharing", "TestStep"]

Logs = dict[str, Any]


class Sharing(IntEnum):
    """Parts of a set that a rank may take: any rows, whole batches only, or nothing but all."""

    WHOLE = 0
    BATCHES = 1
    ROWS = 2


class TestStep:
    """``test_step`` of one model on batches of one form. Local, except :meth:`agree`.

    ``sharing`` is None until it is known. Metrics must add up their counts over rows, or else over
    batches; of values beside metric results Keras reports the last batch's.

    Args:
        signature: signature of batches, with a free first axis.
        as_data: function from such a batch to the argument of ``test_step``.
        alone: whether there is a single rank.
        say: function that prints a line for the user.
    """

    __test__ = False  # it is no test

    def __init__(
        self,
        model: Any,
        signature: Any,
        as_data: Callable[[Any], Any],
        *,
        alone: bool,
        say: Callable[[str], None],
    ) -> None:
        self._model = model
        self._signature = signature
        self._as_data = as_data
        self._alone = alone
        self._say = say
        self._line = ""  # for the terminal, once a step is made
        self._function: Callable[[Any], Logs] | None = None
        self._concrete: Any = None
        self._names: dict[str, Any] = {}
        self._sources: dict[str, tuple[Any, str | None]] = {}
        self._extra: Logs = {}
        self._idle = IdleDraws()
        self.sharing: Sharing | None = None

    def renew(self) -> None:
        """Trace again, because the model's shapes have changed."""
        self._function = None

    def agree(self, batch: Any, communicator: ft.Communicator) -> None:
        """Determine, by the first *batch*, what ranks may share; collective.

        All ranks do the same afterwards. Nothing is changed. The first step prints a line if they
        cannot share it, so that one that fails in plain Keras as well ends with its own error only.
        """
        reason = self._find(batch)
        assert self.sharing is not None
        if not self._alone:
            agreed = communicator.allgather(np.array([self.sharing], np.int64)).rows.min()
            if agreed != self.sharing:
                self.set_sharing(Sharing(agreed))
                reason = "another rank found that it cannot be shared"
        if communicator.initial_size > 1 and self.sharing == Sharing.WHOLE:
            self._line = f"every rank evaluates all of the data: {reason}"

    def set_sharing(self, sharing: Sharing) -> None:
        """Take *sharing* over from the other ranks, without a trial."""
        self.sharing = sharing
        self._function = None

    def __call__(self, batch: Any) -> None:
        """Evaluate *batch*, which updates the metrics."""
        self.ready()
        assert self._function is not None
        self._extra = self._function(batch)
        if self._line:
            self._say(self._line)
            self._line = ""

    def ready(self) -> None:
        """Trace the step, so that its logs are known even if this rank has had no batch."""
        if self._function is None:
            self._make()

    @property
    def draws(self) -> bool:
        """Whether the step draws random numbers that nothing uses; see :meth:`passed`."""
        return bool(self._idle.states)

    def passed(self, batches: int) -> None:
        """Advance seed generators as a single process does in so many *batches* of a pass."""
        if self.sharing != Sharing.WHOLE:
            self._idle.advance(batches)

    @property
    def logs(self) -> Logs:
        """Logs that the step would return now."""
        if self.sharing == Sharing.WHOLE:
            return self._extra
        if self.sharing == Sharing.ROWS:
            return dict(self._model.get_metrics_result())
        now = {name: keras_hooks.Results.now(source) for name, source in self._sources.items()}
        return as_returned(FlatLogs({**self._extra, **now}, self._names))

    @property
    def extra(self) -> np.ndarray:
        """Sums of the newest batch beside metrics, float64, flat."""
        values = [np.asarray(self._extra[name], np.float64) for name in self._extra_names]
        return np.concatenate([np.empty(0), *(value.reshape(-1) for value in values)])

    @extra.setter
    def extra(self, flat: np.ndarray) -> None:
        start = 0
        for name in self._extra_names:
            shape = np.shape(self._extra[name])
            end = start + int(np.prod(shape))
            self._extra[name] = flat[start:end].reshape(shape)
            start = end

    @property
    def _extra_names(self) -> list[str]:
        return [] if self.sharing == Sharing.WHOLE else list(self._extra)

    # Finding out.

    def _find(self, batch: Any) -> str:
        by_rows = keras_hooks.evaluates_rows(self._model)
        ways = [Sharing.BATCHES] if not self._alone else []
        if by_rows:
            ways.insert(0, Sharing.ROWS)
        reason = ""
        if self._model.run_eagerly:  # effects show in no graph: Keras's own parts alone are tried
            ways = [way for way in ways if way == Sharing.ROWS]
            reason = "test_step runs eagerly, so it may do anything"
        if ways and by_rows and not self._model.built:
            try:
                self._build(batch)
            except NotShareable as found:
                ways, reason = [], str(found)
        for self.sharing in ways:
            generators = keras_hooks.Generators()
            built = self._model.built
            try:
                with attempted("test_step cannot be shared"):
                    self._make()
                    drawn = generators.moved() if built else []
                    with unheard():
                        self._try_out(batch, drawn)
                return ""
            except NotShareable as found:
                reason = str(found)
            finally:
                # A trace draws as that of Keras does, maybe while a thread draws for later batches.
                generators.put_back(built=not built, host=self._model.run_eagerly)
        self.set_sharing(Sharing.WHOLE)
        return reason

    def _build(self, batch: Any) -> None:
        """Create the model's variables; a failing trace would leave them without values."""
        data = self._as_data(batch)
        with attempted("the model cannot be built from its data"), free_of_rows():
            self._model(keras_hooks.inputs_of(data), training=False)

    def _make(self) -> None:
        model = self._model
        if self.sharing == Sharing.WHOLE:
            self._function = whole_test_step(model, self._signature, self._as_data)
        elif model.run_eagerly:
            self._function = self._run
        else:
            traced = keras_hooks.graph_of(self._run, self._signature)
            with self.as_noted(), self._idle.noted():
                self._concrete = traced.get_concrete_function()
                self._python.note()
            self._function = traced
            outputs = self._concrete.structured_outputs.items()
            self._extra = {name: np.zeros(_shape_of(value)) for name, value in outputs}

    def as_noted(self) -> contextlib.AbstractContextManager[None]:
        """Context in which a trace reads the Python that Keras's function would have read."""
        return self._python.as_noted()

    @property
    def _python(self) -> TracedPython:
        """Python that the first trace for batches of this form has read.

        Keras keeps its test function until the model is compiled again.
        """
        known: dict[str, TracedPython] = self._model.test_function.python
        return known.setdefault(repr(self._as_data(self._signature)), TracedPython(self._model))

    def _run(self, batch: Any) -> Logs:
        model = self._model
        with keras_hooks.recorded_results(model) as results, self._checked():
            made = keras_hooks.with_functions_inline(model.test_step, self._as_data(batch))
            logs = keras_hooks.flat_logs(made)
        sources = {name: results.source_of(value) for name, value in logs.items()}
        self._names = names_of(made)
        self._sources = {name: source for name, source in sources.items() if source is not None}
        extra = {name: logs[name] for name in logs if name not in self._sources}
        if self.sharing == Sharing.ROWS and extra:
            raise NotShareable(f"test_step returns {', '.join(extra)}, which are not its metrics")
        tensors = {name: keras_hooks.tensor_of(value) for name, value in extra.items()}
        states = [variable.value for variable in model.metrics_variables]
        for name, tensor in tensors.items():
            if graph_inspection.depends_on(tensor, states):  # which are those of one rank
                raise NotShareable(f"test_step returns {name}, made of a metric and not its result")
        return tensors

    @contextlib.contextmanager
    def _checked(self) -> Iterator[None]:
        """Context of a step on parts of batches, with checks if batches are divided by rows."""
        if self.sharing != Sharing.ROWS:
            yield
            return
        with (
            keras_hooks.mean_losses_only(self._model),
            keras_hooks.weighted_batch_metrics(self._model, _refused),
        ):
            yield

    def _try_out(self, batch: Any, drawn: list[str]) -> None:
        """Check that the counts of metrics add up over batches.

        Raises:
            NotShareable: they do not, or the step has other effects.
        """
        model, function = self._model, self._concrete
        metrics = model.metrics_variables
        changing = keras_hooks.changing_variables(model)
        if self.sharing == Sharing.ROWS and model.run_eagerly:
            others = [variable.numpy() for variable in changing]
            self(batch)  # which makes metrics in its first call, on every rank
            model.reset_metrics()
            put_back(changing, others)
            check_parts(model, self, batch)
            return
        unused = [state.value for state in self._idle.states]
        if drawn or graph_inspection.drawing(function) or uses(function, unused):
            raise NotShareable("test_step draws random numbers")
        states = [variable.value for variable in metrics]
        if kind := nonlinear_in_states(function, states):
            raise NotShareable(f"a metric's state is made by {kind} of what it was before")
        if self.sharing == Sharing.ROWS:
            if graph_inspection.writes(function, but=states):
                raise NotShareable(CHANGES)
            check_parts(model, self, batch)
            return
        check_counts(model, self, batch, function)


def _shape_of(value: Any) -> tuple[int, ...]:
    numeric = value.dtype.is_floating or value.dtype.is_integer or value.dtype.is_bool
    if not numeric or not value.shape.is_fully_defined():
        raise NotShareable("test_step returns what is no number nor array of one shape")
    return tuple(value.shape)


def _refused() -> NoReturn:
    raise NotShareable("test_step counts batches, of which ranks would make others")
