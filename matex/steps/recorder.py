"""Splitting of a user's unmodified ``train_step`` at the optimizer.

While the step is traced its optimizer records the gradients instead of applying them; they are
applied after the exchange, by the optimizer's own method.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

from matex import keras_hooks
from matex.errors import SeveralUpdatesFound
from matex.keras_hooks.optimizers import build_for
from matex.steps.graphs.graph_inspection import first_used

__all__ = ["Recorder"]


class Recorder:
    """Records the gradients that a trace of ``train_step`` passes to its optimizer. Local.

    ``scaled`` says that the loss, and so the gradients, were multiplied by the contribution's
    weight; if a step does not call ``scale_loss``, the caller must weight them.
    """

    def __init__(self, optimizer: Any) -> None:
        self._optimizer = optimizer
        self._rate = keras_hooks.learning_rate_variable(optimizer)
        self._gradients: list[Any] = []
        self._variables: list[Any] | None = None
        self._calls = 0
        self._begun = self._applied = 0
        self._later: Any = None  # tape of the operations of an eager step after the update
        self._rate_before: Any = None  # of an eager step
        self.scaled = False

    @contextlib.contextmanager
    def recording(self, weight: Any) -> Iterator[None]:
        """Context that runs ``train_step``; *weight* is the scalar factor of the loss."""
        optimizer = self._optimizer
        scale_loss = optimizer.scale_loss
        self._calls, self.scaled, self._later = 0, False, None
        self._begun, self._rate_before = _count(), self._read_rate()

        def apply(grads: Sequence[Any], trainable_variables: Any = None) -> None:
            keras_hooks.exchange_outside_xla()
            self._calls += 1
            self._applied = _count()
            if not optimizer.built:
                build_for(optimizer, trainable_variables)
            self._variables = None if trainable_variables is None else list(trainable_variables)
            self._gradients = list(grads)
            assert len(self._gradients) == len(self._changed)
            if tf.executing_eagerly() and self._later is None:
                self._later = later.enter_context(tf.GradientTape())

        def scaled_loss(loss: Any) -> Any:
            self.scaled = True
            return scale_loss(loss) * tf.cast(weight, loss.dtype)

        # Instance attributes shadow the methods of any optimizer class.
        object.__setattr__(optimizer, "apply", apply)
        object.__setattr__(optimizer, "scale_loss", scaled_loss)
        try:
            with contextlib.ExitStack() as later, keras_hooks.recording():
                yield
        finally:
            object.__delattr__(optimizer, "apply")
            object.__delattr__(optimizer, "scale_loss")
        if self._calls != 1:
            raise SeveralUpdatesFound(
                f"train_step calls its optimizer {self._calls} times, not once"
            )

    def check_order(self, weights: Sequence[Any]) -> None:
        """Check that operations traced after the update neither change nor read *weights*.

        They would read the weights before the update, which is made later. A learning rate that the
        step sets would be overwritten by the leader's of before. For an eager step only reads of
        trainable weights are detected, and another learning rate than before.

        Raises:
            SeveralUpdatesFound: they do; the update must be made inside the step.
        """
        if tf.executing_eagerly():
            if self._read_rate() != self._rate_before:
                raise SeveralUpdatesFound("train_step sets the learning rate")
            read = [] if self._later is None else self._later.watched_variables()
            if read:
                raise SeveralUpdatesFound(f"train_step uses {read[0].name} after the update")
            return
        graph = tf.compat.v1.get_default_graph()
        traced = graph.get_operations()
        slots = [v for v in self._optimizer.variables if v is not self._rate]
        held = [*weights, *self._changed, *slots]
        rate = [] if self._rate is None else [self._rate]
        later = first_used(traced[self._applied :], graph, held)
        changed = first_used(traced[self._begun :], graph, [*held, *rate], writes=True)
        if later or changed:
            raise SeveralUpdatesFound(
                f"train_step uses {later} after the update"
                if later
                else f"train_step changes {changed} beside the update"
            )

    def _read_rate(self) -> float | None:
        """Learning rate of now, in an eager step; None in a graph, or if it is no variable."""
        if self._rate is None or not tf.executing_eagerly():
            return None
        return float(self._rate.numpy())

    @property
    def gradients(self) -> list[Any]:
        """Gradients that are not None, in the variables' order: tensors or ``tf.IndexedSlices``."""
        return [g for g in self._gradients if g is not None]

    @property
    def variables(self) -> list[Any]:
        """Variables of :attr:`gradients`."""
        pairs = zip(self._changed, self._gradients, strict=True)
        return [variable for variable, gradient in pairs if gradient is not None]

    @property
    def names(self) -> list[str]:
        """Names of :attr:`variables`."""
        return [getattr(variable, "path", variable.name) for variable in self.variables]

    @property
    def _changed(self) -> list[Any]:
        """Variables for which the optimizer was called."""
        if self._variables is None:
            return list(self._optimizer.trainable_variables)
        return self._variables

    def apply(self, gradients: Sequence[Any]) -> None:
        """Pass *gradients*, as in :attr:`gradients`, to the optimizer's own method."""
        given = iter(gradients)
        complete = [None if g is None else next(given) for g in self._gradients]
        self._optimizer.apply(complete, self._variables)


def _count() -> int:
    """Number of operations of the graph that is being traced."""
    if tf.executing_eagerly():
        return 0
    return len(tf.compat.v1.get_default_graph().get_operations())
