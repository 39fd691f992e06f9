"""The budget of a fit's events: rises of the held-out loss that they may cause."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from matex.apoptosis.allowance import LossProgress, allowed_loss
from matex.apoptosis.event_samples import EventSamples
from matex.apoptosis.graph.forward import REFUSALS
from matex.apoptosis.peers import Peers
from matex.errors import Unsupported
from matex.keras_hooks.error_text import reason_of

__all__ = ["Budget"]


class Budget:
    """Losses of one fit, and the rises that they allow its events.

    Args:
        samples: samples of the fit, with held-out rows.
        peers: participants of its events.
        delta: rise as a fraction of a scale, see :func:`allowed_loss`; None for no limit.
    """

    def __init__(self, samples: EventSamples, peers: Peers, delta: float | None) -> None:
        self._samples = samples
        self._peers = peers
        self._delta = delta
        self._progress = LossProgress()

    def take_over(self, notes: Mapping[str, Any]) -> None:
        """Continue from *notes*, those of :meth:`notes` in the same fit; local."""
        self._progress = LossProgress(**notes)

    def notes(self) -> dict[str, Any]:
        """Losses as JSON values."""
        return self._progress.notes()

    def open(self, model: Any) -> None:
        """Measure the loss of *model* before training, unless it is known; collective.

        Raises:
            Unsupported: on every rank, where the model cannot be called with the data.
        """
        if self._delta is None or self._progress.at_start is not None:
            return
        try:
            loss = self._samples.before_training().loss(self._peers)
        except REFUSALS as error:
            raise Unsupported(
                "apoptosis calls a model with the x of its data, to judge it before and after it "
                f"is cut. Received: {type(model).__name__}, which cannot be called so "
                f"({reason_of(error)}); give matex.Apoptosis data=(x, y) with an x that it takes"
            ) from error
        self._progress = LossProgress(at_start=loss)

    def from_epoch(self, epoch: int) -> None:
        """Begin after *epoch*: a fit that starts over has no debt; local."""
        self._progress = self._progress.from_epoch(epoch)

    def allowed(self, epoch: int, before: float, training: float | None, rows: int) -> float | None:
        """The loss that an event may lead to; None where it has to wait; collective.

        Args:
            epoch: epoch after which the event is due, counted from 1.
            before: held-out loss, on *rows* rows.
            training: mean loss of the epoch's training, None if unknown.
            rows: number of held-out rows.
        """
        if self._delta is None:
            return math.inf
        if not self._progress.is_even(before, training, self._delta):
            return None
        looked = self._progress.rows
        if looked not in (0, rows):
            alike = self._samples.on_rows(looked).loss(self._peers)
        else:
            alike = before
        gained = self._progress.gained(epoch, alike, training)
        return allowed_loss(before, self._progress.at_start or 0.0, self._delta, gained)

    def spend(self, before: float, training: float | None) -> None:
        """Note an event, before which the losses were these; local."""
        self._progress = self._progress.spent(before, training)

    def look(self, epoch: int, held_out: float, training: float | None, rows: int) -> None:
        """Note the losses at the end of *epoch*, *held_out* on *rows* rows; local."""
        self._progress = self._progress.looked(epoch, held_out, training, rows)
