"""Training outside of fit: custom loops with functions, optimizers and tapes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from matex import keras_hooks
from matex.checkpointing import model_state
from matex.errors import InputError, Unsupported
from matex.fitting.loops.loop_steps import LoopSteps
from matex.fitting.loops.train_on_batch import BatchTrainers
from matex.fitting.replicated_update import ReplicatedUpdate
from matex.fitting.trained_models import TrainedModels
from matex.fitting.whole_batches import slower
from matex.preemption.stop_request import stopped_in_custom_loop
from matex.process.call_stack import CallKind, CallStack
from matex.run.context import RunContext

__all__ = ["CustomLoops"]

_LOOP = "a loop of one's own"


class CustomLoops:
    """Custom loops of the script: shared functions, and work that every rank repeats.

    Args:
        run: run of the loops.
        calls: methods of Keras that are running.
        replicated: keeps the gradients equal.
    """

    def __init__(self, run: RunContext, calls: CallStack, replicated: ReplicatedUpdate) -> None:
        self._run = run
        self._calls = calls
        self._replicated = replicated
        self._has_checkpoint = False
        self._is_told_whole = False
        self._is_shared = False
        self._where_shared = ""
        self.trained = TrainedModels()
        self._loop_steps = LoopSteps(
            run, around=self._around, shared=self._note_shared, refused=self._say_refused
        )

    def share(self) -> None:
        """Share training functions from now on, if ranks and options allow it; local."""
        config, ranks = self._run.config, self._run.communicator.initial_size
        if config.deterministic:
            self._where_shared = ", without deterministic,"
        elif config.strategy != "sync":
            self._where_shared = f", with strategy sync in place of {config.strategy},"
        elif config.share_loops != "proved":
            self._where_shared = ", with share_loops proved,"
        self._is_shared = ranks > 1 and not self._where_shared
        keras_hooks.watch_functions(self._calling)

    def _calling(
        self,
        original: Callable[..., Any],
        function: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """Result of a call of a function of ``tf.function``; collective if it trains."""
        if self._is_shared and self._calls.is_empty and keras_hooks.is_eager():
            return self._loop_steps.call(original, function, args, kwargs)
        return original(function, *args, **kwargs)

    @contextlib.contextmanager
    def _around(self, name: str, kind: CallKind = CallKind.STEP) -> Iterator[None]:
        """Context of a step, by default of the script's function *name*; collective."""
        run = self._run
        with run.watchdog.working(), run.calls.ordered_call(name), self._calls.within(kind):
            yield

    def before_apply(self, optimizer: Any, gradients: list[Any]) -> list[Any]:
        """An optimizer is about to change weights outside of a shared step; collective."""
        self._loop_steps.before_apply()
        if self._run.communicator.initial_size == 1:
            if self._calls.is_empty:
                self._remember_optimizer(optimizer)
                if not self._has_checkpoint:
                    self._leave_alone()
            return gradients
        if self._calls.is_innermost_alone:
            raise Unsupported(
                "a callback that trains must do so on every rank. Received: an optimizer step in "
                "one that runs on the leader; do not give its class the attribute on_one_rank"
            )
        if self._calls.is_empty:
            if not self._loop_steps.is_first_call:
                self._say_whole()
            self._remember_optimizer(optimizer)
        return self._replicated.average(optimizer, gradients)

    def train_on_batch(
        self, original: Callable[..., Any], model: Any, trainers: BatchTrainers, given: Any
    ) -> Any:
        """Logs of one step of *model* with the batch *given*; collective.

        Args:
            original: Keras's train function, for a batch that cannot be cut.
            trainers: make the steps that are shared.
        """
        batch = keras_hooks.as_tensors(given)
        with self._around("train_on_batch", CallKind.TRAIN_ON_BATCH):
            number = len(self.trained)
            self.remember(model)
            self.say_unsaved("train_on_batch")
            logs = trainers.step(batch, number=number)
            if logs is None:
                with self._replicated.counts.train_step():
                    logs = original(iter([batch]))
                trainers.whole_step_made()
            return logs

    def average_tape(self, gradients: list[Any], sources: list[Any]) -> list[Any]:
        """Average *gradients* of *sources* for a distributed tape; collective in custom loops.

        Under fit and train_on_batch the optimizer sees to it.
        """
        alone = self._run.communicator.initial_size == 1
        if alone or not self._calls.is_empty or keras_hooks.is_recording():
            return gradients
        variables = [s for s in sources if keras_hooks.is_variable(s)]
        self._say_whole()
        self.trained.remember(*variables, variables=lambda: variables)
        return self._replicated.average(None, gradients)

    def begin_checkpoint(self) -> None:
        """Note that the script saves a custom loop; local.

        Raises:
            InputError: the script saves a custom loop already.
        """
        if self._has_checkpoint:
            raise InputError(
                "one matex.Checkpoint was wanted. Received: a second; give all parts to the first"
            )
        self._has_checkpoint = True
        self._run.checkpoints.by_script = True
        self._run.stop_request.raise_in_handler(False)

    def _note_shared(self, model: Any) -> None:
        """Note the *model* of a step that is shared."""
        self.remember(model)
        self.say_unsaved(_LOOP)

    def _say_refused(self, line: str) -> None:
        """Say in a *line* why a step is not shared."""
        self._is_told_whole = True
        self._run.terminal.say_once(f"{line}; {slower(self._run.ranks.threads)}")

    def _remember_optimizer(self, optimizer: Any) -> None:
        """Note *optimizer* of a loop: its state and weights are compared at the end."""
        self._refuse_apart(_LOOP)
        self.trained.remember(optimizer, variables=lambda: keras_hooks.state_of(optimizer))

    def remember(self, model: Any) -> None:
        """Note *model*, whose weights the ranks compare at the end."""

        def variables() -> list[Any]:
            return model_state.variables_of(model)

        self.trained.remember(model, variables=variables)

    def say_unsaved(self, what: str) -> None:
        """Print once that no checkpoint is made of *what*, if there is a place for checkpoints."""
        self._refuse_apart(what)
        if self._run.saver.is_on and not self._has_checkpoint:
            self._run.terminal.say_once(
                f"no checkpoint is made of {what}: only the script could continue it, "
                "with matex.Checkpoint"
            )

    def _leave_alone(self) -> None:
        """Raise at a stop request on a single rank, which has no exchange to agree by; local.

        Raises:
            StopRequested: there is a stop request.
        """
        self.say_unsaved(_LOOP)
        if self._run.stop_request.is_requested:
            raise stopped_in_custom_loop()
        self._run.stop_request.raise_in_handler(True)

    def _say_whole(self) -> None:
        if not self._is_told_whole:
            pace = slower(self._run.ranks.threads)
            self._run.terminal.say_once(
                f"{_LOOP} runs whole on every rank, {pace}; fit, train_on_batch, "
                f"and{self._where_shared} a step under tf.function or matex.step share the work"
            )
        self.say_unsaved(_LOOP)

    def _refuse_apart(self, what: str) -> None:
        """End a newcomer that would train alone before it has joined."""
        if self._run.elastic.joining is not None and self._run.communicator.world.awaits_admission:
            self._run.elastic.joining.leave(
                f"the script trains by {what} before the fit that they are in"
            )
