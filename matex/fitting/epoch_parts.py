"""Parts that epochs of shared steps are made with: start, rate, and steps of undivided batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from matex.errors import NotShareable

__all__ = ["FitStart", "Logs", "RateSchedule", "TrainFunction", "WholeBatch", "WholeBatchSteps"]

Logs = dict[str, Any]
TrainFunction = Callable[[Any], Logs]


class FitStart(NamedTuple):
    """Position at which a fit starts; equal on all ranks."""

    epoch: int
    samples: int = 0
    """Number of samples of the epoch that an earlier run has done."""
    stops: bool = False
    """Whether training was stopped there, inside an epoch whose end is to come."""


class RateSchedule(Protocol):
    """Factor of the learning rate: :class:`matex.fitting.fit_plan.FitPlan`."""

    def rate_factor(self, epochs_done: float) -> float:
        """Factor for the learning rate of the step after *epochs_done* epochs. Local."""


class WholeBatch(NamedTuple):
    """A batch of which every rank computes all rows."""

    tensors: Any
    as_data: Callable[[Any], Any]
    """Function from the tensors to the argument of ``train_step``."""
    signature: Any
    """Signature of the tensors if batches may have different numbers of rows; None if all have the
    same number."""
    rows: int
    is_of_stream: bool
    """Whether the samples of an epoch are counted as they arrive."""


class WholeBatchSteps(Protocol):
    """Maker of the steps of a fit whose batches cannot be divided: :class:`WholeBatches`."""

    def cannot_share(self, reason: NotShareable) -> None:
        """Note, before the first step, the *reason* batches cannot be divided; on all ranks."""

    def step(self, original: TrainFunction, batch: WholeBatch) -> Logs:
        """Make the step of *batch* by Keras's own train function; return its logs; collective."""

    def all_want_stop(self, wanted: bool) -> bool:
        """Whether all ranks want to stop before this step; collective."""
