"""Checkpoints of a custom loop, which only the script can continue."""

from __future__ import annotations

from typing import Any

import numpy as np

from matex import keras_hooks, session
from matex.checkpointing import model_state
from matex.checkpointing.buffer_pool import BufferPool
from matex.checkpointing.deferred_snapshot import DeferredSnapshot
from matex.checkpointing.saver import FILES
from matex.errors import InputError
from matex.fitting.fit_state.saved_cursor import LOOP
from matex.run.preemption import checkpoint_and_exit

__all__ = ["Checkpoint"]


class Checkpoint:
    """Checkpoints of a custom loop; collective to construct, after its parts have been built.

    If the run continues from a checkpoint of this loop, the parts get its values, and ``done`` is
    the number of its steps. Random numbers and the order of the data must be functions of the step,
    or be among the parts.

    Args:
        parts: models, optimizers, metrics and other objects with ``variables``, always in the same
            order. A compiled model includes its optimizer.

    Outside a run nothing is saved, and ``done`` only counts.

    Raises:
        InputError: on every rank; a part is not built or has no variables, the checkpoint has other
            parts, or the script has made another such object.

    Example:
        >>> model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
        >>> optimizer = keras.optimizers.SGD(0.1)
        >>> optimizer.build(model.trainable_variables)
        >>> checkpoint = matex.Checkpoint(model, optimizer)
        >>> for step in range(checkpoint.done, 10):
        ...     with tf.GradientTape() as tape:
        ...         loss = tf.reduce_mean(model(np.ones((8, 4))) ** 2)
        ...     gradients = tape.gradient(loss, model.trainable_variables)
        ...     optimizer.apply(gradients, model.trainable_variables)
        ...     checkpoint.step()
        >>> checkpoint.done
        10
    """

    def __init__(self, *parts: Any) -> None:
        self.done = 0
        self._run = None if session.current is None else session.current.run
        brought = [getattr(part, "optimizer", None) for part in parts]
        every = _distinct([*parts, *(part for part in brought if part is not None)])
        for part in every:
            variables = getattr(part, "variables", None) or [None]
            its_own = all(keras_hooks.is_keras_variable(variable) for variable in variables)
            if not its_own or not getattr(part, "built", True):
                raise InputError(
                    "parts of a checkpoint must be built and have variables of Keras. Received: "
                    f"{repr(part)[:80]}; call its build() before"
                )
        optimizers = [part for part in every if keras_hooks.is_optimizer(part)]
        others = [part for part in every if not keras_hooks.is_optimizer(part)]
        self._models = [part for part in others if keras_hooks.is_model(part)]
        self._weights = _distinct([v for part in others for v in _lasting(part)])
        self._slots = _distinct([v for part in optimizers for v in part.variables])
        self._buffers = BufferPool()
        self._first = 0
        if self._run is not None and session.current is not None:
            self._fits = session.current.begin_own_checkpoint()
            self._begin()

    def step(self) -> None:
        """Count a step, save if it is due, and leave on a stop request; collective.

        Raises:
            PreemptedExit: on every rank, after the checkpoint was written.
        """
        self.done += 1
        run = self._run
        if run is None:
            return
        # A single rank counts no steps outside of fit.
        run.records.ledger.go_to_step(max(run.step, self._first + self.done))
        run.watchdog.progress()
        requests = run.steps.requests()
        mine = np.array([requests.leave, requests.save], np.int64)
        leaves, due = run.communicator.allgather(mine).rows.T
        if leaves.any():
            checkpoint_and_exit(run, self._hold)
        every = run.config.checkpoint_every
        counted = bool(every and self.done % every == 0)
        bits = int(due[0]) | (FILES if counted else 0)  # the first row is the leader's
        if bits:
            run.steps.faults.at("checkpoint")
            run.saver.save(bits, self._hold, patient=counted)

    def save(self) -> bool:
        """Save to a file now, and return when it is written; collective.

        Returns:
            True if the file was written, equal on all ranks; False outside a run.
        """
        return self._run is not None and self._run.saver.save_for_all(self._hold)

    def _begin(self) -> None:
        run = self._run
        assert run is not None
        run.saver.expect_bytes(sum(map(model_state.size_of, (*self._weights, *self._slots))))
        self._first = run.step
        saved = run.checkpoints.saved
        if saved is not None and LOOP in saved.cursor:
            pairs = model_state.matched("weights", self._weights, saved.weights)
            pairs += model_state.matched("optimizer", self._slots, saved.optimizer)
            for variable, value in pairs:
                variable.assign(value)
            self.done = saved.cursor[LOOP]
            self._first = saved.step - self.done
        model_state.broadcast_all(run.communicator, [*self._weights, *self._slots])

    def _hold(self) -> DeferredSnapshot:
        cursor = {"fit": self._fits, "step": self._first + self.done, LOOP: self.done}
        texts = [model_state.architecture_of(model) for model in self._models]
        return DeferredSnapshot(
            {"weights": self._weights, "optimizer": self._slots},
            cursor,
            architecture=texts[0] if len(texts) == 1 else "",
            extra={} if self._run is None else self._run.records.ledger.job.extra(),
            pool=self._buffers,
        )


def _lasting(part: Any) -> list[Any]:
    return model_state.weights_of(part) if keras_hooks.is_model(part) else list(part.variables)


def _distinct(things: list[Any]) -> list[Any]:
    return list({id(thing): thing for thing in things}.values())
