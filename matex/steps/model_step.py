"""The base of steps of one update and of several: what both kinds have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from matex import keras_hooks
from matex.partition.slot_capacity import SlotCapacity
from matex.steps.control import control_spec
from matex.steps.forward_pass import ForwardPass
from matex.steps.script_code.traced_python import TracedPython
from matex.steps.separability.check_record import CheckRecord
from matex.steps.step_computation import Batch

__all__ = ["ModelStep"]


class EmbeddingSlots(Protocol):
    """Slots for the gradients of embeddings in the exchanges of a step."""

    @property
    def has_slots(self) -> bool:
        """Whether gradients are exchanged as slices, so that a batch may be too large."""

    @property
    def whole_tables(self) -> dict[str, int]:
        """Bytes of embedding gradients that are exchanged as whole tables, by name."""

    def holds(self, capacity: SlotCapacity | None) -> bool:
        """Whether batches that need *capacity* need no more slots than there are."""


class ModelStep:
    """Step of one model, traced for one structure of batches. Local.

    ``options`` are those of the constructor, to build the step again. ``batch_spec`` is the
    structure of ``train_step``'s argument. ``checks`` is the record of its separability checks, and
    ``checked`` are the numbers of the exchanges in the middle of its graph that are known to add up
    over rows: an update may be made in some steps only. A step whose exchange follows its graph has
    none.

    Args:
        model: built model, with built metrics.
        signature: structure of ``tf.TensorSpec`` with a free batch dimension.
        as_data: function from a batch of that signature to the argument of ``train_step``.
        forward: forward and backward pass of the step.
        slots: slots for the gradients of its embeddings.
        options: options of the constructor, ``capacity`` among them.
        synchronized: BatchNormalization layers that normalise over the rows of all ranks; none by
            default.
    """

    def __init__(
        self,
        model: Any,
        signature: Batch,
        as_data: Callable[[Batch], Any],
        forward: ForwardPass,
        slots: EmbeddingSlots,
        options: Mapping[str, Any],
        *,
        synchronized: Sequence[Any] = (),
    ) -> None:
        self._model = model
        self._forward = forward
        self._slots = slots
        self.options = options
        self.batch_spec = as_data(signature)
        self.checks = CheckRecord()
        self.checked: set[int] = set()
        self._signature = (signature, control_spec())
        self._disabled_randomness = keras_hooks.DisabledRandomness(model, synchronized)
        self._denominators: Callable[[Batch], np.ndarray] | None = None

    @property
    def name(self) -> str:
        """Name of the step in the script."""
        return getattr(self._model, "step_name", "train_step")

    @property
    def python(self) -> TracedPython:
        """Python that the graphs read."""
        return self._forward.python

    @property
    def shifted(self) -> set[str]:
        """Names of random functions whose rows are drawn otherwise than in one process.

        With run_eagerly, they are known after the first contribution.
        """
        return self._forward.shifted

    @property
    def tolerance(self) -> float:
        """Largest relative deviation of a contribution by rounding."""
        return 1e-3 if keras_hooks.is_precise(self._model) else 5e-2

    # The slots of its embeddings.

    @property
    def capacity(self) -> SlotCapacity | None:
        """Capacity for the largest batch so far, if gradients of embeddings may be slices."""
        capacity: SlotCapacity | None = self.options["capacity"]
        return capacity

    @property
    def has_slots(self) -> bool:
        """Whether gradients are exchanged as slices, so that a batch may be too large."""
        return self._slots.has_slots

    def accepts(self, capacity: SlotCapacity | None) -> bool:
        """Whether the step can take global batches that need *capacity*."""
        return self._slots.holds(capacity)

    @property
    def summed_embeddings(self) -> dict[str, int]:
        """Bytes of embedding gradients that are exchanged as whole tables, by name."""
        return self._slots.whole_tables

    # The divisors of its losses.

    @property
    def divides_by_rows(self) -> bool:
        """Whether all losses are divided by numbers of rows."""
        return self._denominators is None

    def denominators(self, rows: Batch) -> Sequence[float]:
        """Divisors of the losses of *rows* other than the number of rows, in order; local."""
        return () if self._denominators is None else self._denominators(rows).tolist()
