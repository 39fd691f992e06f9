"""Context of the calls of Keras's methods on this rank: the model, the files, the callbacks."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from matex import keras_hooks
from matex.files.private import PrivateFiles
from matex.fitting.fit import Fit
from matex.process.call_stack import CallKind, CallStack
from matex.process.callback_placement import placed_callbacks
from matex.process.progress_bar import living_ranks
from matex.run.context import RunContext

__all__ = ["CallContext"]


class CallContext:
    """Objects that the calls of Keras's methods have in common. One per process.

    ``model`` is the model of the newest shared call, ``fit`` the running fit, and ``files`` are the
    files of this rank where there is more than one; None if there is none.

    Args:
        run: run of the process.
    """

    def __init__(self, run: RunContext) -> None:
        self.run = run
        self.calls = CallStack()
        self.model: Any = None
        self.fit: Fit | None = None
        self.files: PrivateFiles | None = None
        self.sees_test_batches = False
        """Whether a callback of the call sees each batch of an evaluation."""

    def within(self, kind: CallKind, call: Callable[[], Any]) -> Any:
        """Make *call*, of a *kind* that ranks make in one order, under the watchdog."""
        with self.calls.within(kind), self.run.watchdog.working(kind is not CallKind.PLAIN):
            return call()

    def plainly(self, call: Callable[[], Any]) -> Any:
        """Make a callback's *call* of a model as in one process; local.

        Other ranks may make it at another time, or not at all: no rank waits for them.
        """
        if self.calls.is_alone:
            return call()
        return self.within(CallKind.PLAIN, call)

    def beside(self, verb: str, call: Callable[[], Any]) -> Any:
        """Make a *call* of a thread of the script's as in one process; local."""
        self.say_whole(verb, "a thread of the script asks for it, at no time that ranks share")
        with self.calls.beside():
            return call()

    def say_whole(self, verb: str, reason: str) -> None:
        """Print why all ranks do the same work, if there are several."""
        if self.run.communicator.initial_size > 1:
            self.run.terminal.say_once(f"every rank {verb} all of the data: {reason}")

    def share_written(self) -> None:
        """Make files that the leader's callbacks wrote visible to all ranks; collective."""
        if self.files is not None:
            self.files.share_written()

    def with_placed_callbacks(self, given: dict[str, Any], *last: Any) -> dict[str, Any]:
        """Arguments for Keras's own method, with each callback placed on its ranks. Local."""
        asked = keras_hooks.listed(given["callbacks"])
        self.sees_test_batches = any(map(keras_hooks.sees_test_batches, asked))
        callbacks = placed_callbacks(
            asked,
            verbose=given["verbose"],
            leads=lambda: self.run.communicator.world.is_leader,
            alone=self._alone,
            restored=self._restored,
            beside_bar=living_ranks(self.run),
            last=last,
            files=self.files,
        )
        return {**given, "callbacks": callbacks}

    def _restored(self, restore: Callable[[], None]) -> None:
        if self.fit is not None:
            self.fit.restore_by(restore)
        elif self.run.communicator.world.is_leader:
            restore()

    def _alone(self, call: Callable[[], None]) -> None:
        """Run *call* with plain Keras, as in one process; local."""
        written = contextlib.nullcontext() if self.files is None else self.files.written()
        with self.calls.within(CallKind.ALONE), self.run.watchdog.working(False), written:
            call()
