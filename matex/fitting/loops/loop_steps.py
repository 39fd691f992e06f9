"""Steps of custom loops: training functions of ``tf.function``, shared like those of fit.

Such a function is detected when its trace calls an optimizer. It is then used as the ``train_step``
of a model that holds the objects it reaches, and its tensors with as many rows as the first are
the batch. A check decides whether its rows can be divided.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import NoneType
from typing import Any

from matex import keras_hooks
from matex.errors import NotShareable
from matex.fitting.loops.free_axes import Axes, FreeAxes, masked
from matex.fitting.loops.loop_numbers import but_for_in_loop
from matex.fitting.loops.script_arguments import ArgumentForm, ScriptArguments
from matex.fitting.loops.script_trainer import ScriptTrainer
from matex.keras_hooks.batch_moments import wandering_biases
from matex.keras_hooks.models import is_in_float16
from matex.keras_hooks.optimizers import setting_when_built
from matex.keras_hooks.script_model import NoUpdate
from matex.run.context import RunContext

__all__ = ["LoopSteps"]

_MOST_FORMS = 16  # of batches; each form is traced

Call = Callable[..., Any]

# Kinds of arguments by which the scripts of a function choose: whether it trains, or which part.
_CHOICES = (bool, int, float, str, NoneType)


class _Trains(BaseException):
    """The trace of a function that calls an optimizer is abandoned.

    No ``except Exception`` of the script or of AutoGraph may catch it.
    """


class LoopSteps:
    """Training functions of the script, and their shared steps. One per process.

    Args:
        run: run of the steps.
        around: function from a step's name to a context for the shared step.
        shared: function called with the model of each form of step.
        refused: function called with the reason for which a function is not shared.
    """

    def __init__(
        self,
        run: RunContext,
        *,
        around: Callable[[str], AbstractContextManager[None]],
        shared: Callable[[Any], None],
        refused: Callable[[str], None],
    ) -> None:
        self._run = run
        self._around = around
        self._shared = shared
        self._refused = refused
        self._known: weakref.WeakKeyDictionary[Any, LoopStep | None] = weakref.WeakKeyDictionary()
        # Choices with which a function calls no optimizer: it may train with others.
        self._idle: weakref.WeakKeyDictionary[Any, set[Any]] = weakref.WeakKeyDictionary()
        self._steps = 0
        self._is_looking = self._creates = self._trains = False

    @property
    def is_first_call(self) -> bool:
        """Whether the running call is the first one of a function that will be shared."""
        return self._is_looking and self._trains

    def before_apply(self) -> None:
        """Abandon the trace of a function that calls an optimizer, to share it; local."""
        if not self._is_looking or keras_hooks.is_eager():
            return
        if not self._creates:
            raise _Trains
        self._trains = True

    def call(
        self, original: Call, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Call *function* and return its result; collective if it trains.

        Args:
            original: TensorFlow's own call.
            function: function of ``tf.function``, called by the script outside of any graph.
            args: its positional arguments.
            kwargs: its arguments by name.
        """
        choices, idle = _choices_of(args, kwargs), self._idle.setdefault(function, set())
        if choices in idle:
            return original(function, *args, **kwargs)
        if function not in self._known:
            found, result = self._looked_at(original, function, args, kwargs)
            if function not in self._known:
                idle.add(choices)
            if not found:
                return result
        step = self._known[function]
        if step is not None:
            with self._around(step.name):
                try:
                    is_first = not step.has_begun
                    result = step.call(args, kwargs)
                    if is_first:
                        self._note(step, but_for=step.differences(self._run))
                    return result
                except NoUpdate:
                    idle.add(choices)
                except NotShareable as reason:
                    self._known[function] = None
                    self._note(step, whole=str(reason), but_for=[])
                    self._refused(f"every rank computes {step.name} whole, because {reason}")
        return original(function, *args, **kwargs)

    def _note(self, step: LoopStep, **facts: Any) -> None:
        """Write the event of a function that is shared or refused."""
        self._run.records.note("loop", function=step.name, **facts)

    def _looked_at(
        self, original: Call, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[bool, Any]:
        """Whether the call of *function* must be shared, and its result if not.

        A first call that creates variables, of layers without an input shape, is not abandoned,
        which would leave them without values.
        """
        self._is_looking, generators = True, keras_hooks.Generators()
        self._creates = self._trains = False
        try:
            with keras_hooks.told_of_variables(self._note_variable):
                result = original(function, *args, **kwargs)
        except _Trains:
            generators.put_back()  # the trace that counts is still to come
            if not self._idle[function]:
                keras_hooks.as_uncalled(function)
            self._known[function] = self._step_of(function)
            return True, None
        finally:
            self._is_looking = False
        if self._trains:
            step = self._known[function] = self._step_of(function)
            step.note_called(args, kwargs)
        return False, result

    def _step_of(self, function: Any) -> LoopStep:
        self._steps += 1
        return LoopStep(self._run, function, self._shared, self._steps - 1)

    def _note_variable(self) -> None:
        if not keras_hooks.is_eager():
            self._creates = True


def _choices_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """Arguments by whose values a function may do something else in Python."""
    named = ((name, value) for name, value in kwargs.items() if isinstance(value, _CHOICES))
    return (*(value for value in args if isinstance(value, _CHOICES)), *named)


class LoopStep:
    """Shared steps of one function of the script.

    Args:
        run: run of the steps.
        function: training function of ``tf.function``.
        shared: function called with the model of each form.
        number: number of the function in the script, from 0 in the order of first use, by which
            ranks detect that they call different ones.
    """

    def __init__(
        self, run: RunContext, function: Any, shared: Callable[[Any], None], number: int
    ) -> None:
        self._run = run
        self.name = keras_hooks.name_of(function)
        self._code = keras_hooks.code_of(function)
        self._dtypes = keras_hooks.input_dtypes(function)
        self._shared = shared
        self._number = number
        self._forms: dict[Any, ScriptTrainer] = {}
        self._given_forms: dict[Any, ArgumentForm] = {}
        self._axes: dict[Any, FreeAxes] = {}
        self._called: Any = None

    @property
    def has_begun(self) -> bool:
        """Whether a step has begun."""
        return bool(self._forms)

    def differences(self, run: RunContext) -> list[str]:
        """Names of the reasons for which its numbers differ from plain Keras's, printed once."""
        forms = list(self._forms.values())
        return but_for_in_loop(
            run,
            shifted={name for form in forms for name in form.shifted},
            summed={name for form in forms for name in form.summed},
            copied={name for form in forms for name in setting_when_built(form.model)},
            wandering=max(
                len(wandering_biases(form.model, keras_hooks.normalizations(form.model)))
                for form in forms
            ),
            in_float16=any(is_in_float16(form.model) for form in forms),
        )

    def note_called(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Note a first call that was not shared."""
        form = self._given(args, kwargs).form
        self._called = form.kind, form.sizes

    def _given(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> ScriptArguments:
        return ScriptArguments(args, kwargs, dtypes=self._dtypes, known=self._given_forms)

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make a shared step, and return the function's result; collective.

        Raises:
            NotShareable: on every rank; nothing was changed.
            PreemptedExit: the ranks agreed to leave; on every rank.
        """
        given = self._given(args, kwargs)
        form = given.form
        free = self._axes.setdefault(form.kind, FreeAxes()).of(form.sizes)
        trainer = self._forms.get((form.kind, masked(form.sizes, free)))
        if trainer is None or not trainer.accepts(given):
            return self._first_step(given, free)
        return trainer.step(given)

    def _first_step(self, given: ScriptArguments, free: Axes) -> Any:
        """Make the first step for batches of any size along *free* axes; collective.

        If these cannot be open, or numbers would not be those of a trace for each size, each size
        has a trace from now on, as in plain TensorFlow.
        """
        try:
            trainer = self._trainer(given, free)
            if not (free and trainer.differs_from_fixed):
                return trainer.step(given)
        except NoUpdate:
            raise
        except NotShareable:
            if not free:
                raise
        self._forms.pop((given.form.kind, masked(given.form.sizes, free)), None)
        self._axes[given.form.kind].refuse()
        return self._first_step(given, frozenset())

    def _trainer(self, given: ScriptArguments, free: Axes) -> ScriptTrainer:
        """Make the trainer of batches like *given*; collective."""
        form = given.form.kind, masked(given.form.sizes, free)
        if form not in self._forms and len(self._forms) == _MOST_FORMS:
            raise NotShareable(f"it is called with more than {_MOST_FORMS} forms of arguments")
        trainer = ScriptTrainer(self._run, self.name, self._code, given, free, number=self._number)
        if (given.form.kind, given.form.sizes) == self._called:
            keras_hooks.count_noise(keras_hooks.noise_state(trainer.model), given.form.rows)
        self._shared(trainer.model)
        self._forms[form] = trainer
        return trainer
