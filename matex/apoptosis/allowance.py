"""The rise of the held-out loss that an event may cause, measured against training's gain. Pure.

While the loss still falls fast, a rise by a part of one epoch's gain is recovered within that
epoch; near the end of the training nothing recovers it. So an event may raise the held-out loss
by the larger of *delta* times its scale and half of the last epoch's gain; the latter counts up to
twice *delta* times the loss, because a network that learns fast does not use yet what it will
need. The next event waits until the loss is back where the last one began, so that the costs of
events cannot add up.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

__all__ = ["LossProgress", "allowed_loss"]

# Fractions of an epoch's gain, and of delta.
_PART, _MOST = 0.5, 2.0


def allowed_loss(before: float, at_start: float, delta: float, gained: float = 0.0) -> float:
    """The held-out loss that an event may lead to.

    Args:
        before: the held-out loss when the event begins.
        at_start: loss of the untrained network.
        delta: share of a scale that lies between the current and the untrained loss, the cube
            root of *before* times the square of the larger of both: a share of the current loss
            alone vanishes near zero, and one of the untrained loss alone allows too much.
        gained: decrease of the loss in the last epoch.
    """
    loss = abs(before)
    earned = min(_PART * gained, _MOST * delta * loss)
    scale = (loss * max(loss, abs(at_start)) ** 2) ** (1 / 3)
    return before + max(delta * scale, earned)


@dataclass(frozen=True)
class LossProgress:
    """The history of the losses that events need. Epochs are counted from 1.

    ``at_start`` is the held-out loss of the untrained network. At the end of ``epoch`` (0:
    not looked yet) the held-out loss was ``held_out``, after an event if there was one, on
    ``rows`` rows (0: unknown how many), and the mean loss over the epoch's training
    ``training``, None if unknown. ``owed``: what the latter, or else the former, was before
    the newest event; None: there was none.
    """

    at_start: float | None = None
    epoch: int = 0
    held_out: float = 0.0
    rows: int = 0
    training: float | None = None
    owed: float | None = None

    def looked(
        self, epoch: int, held_out: float, training: float | None, rows: int
    ) -> LossProgress:
        """Copy with the losses at the end of *epoch*, *held_out* on *rows* rows."""
        return replace(self, epoch=epoch, held_out=held_out, training=training, rows=rows)

    def gained(self, epoch: int, held_out: float, training: float | None) -> float:
        """The fall of the loss since the end of the epoch before *epoch*; at least 0.

        *held_out* is on as many rows as at the last look.

        The smaller of the values by held-out loss and training loss: the first fluctuates while
        BatchNormalization lags, the second falls while a network overfits.
        """
        if not self.epoch or self.epoch != epoch - 1:
            return 0.0
        gained = self.held_out - held_out
        if training is not None and self.training is not None:
            gained = min(gained, self.training - training)
        return max(0.0, gained)

    def spent(self, held_out: float, training: float | None) -> LossProgress:
        """A copy with a new event, before which the losses were these."""
        return replace(self, owed=held_out if training is None else training)

    def from_epoch(self, epoch: int) -> LossProgress:
        """Progress for a fit that begins after *epoch*: one that starts over has no debt."""
        return self if self.epoch <= epoch else replace(self, epoch=0, owed=None)

    def is_even(self, held_out: float, training: float | None, delta: float) -> bool:
        """Whether training has made up, to within *delta*, for the cost of the newest event."""
        now = held_out if training is None else training
        return self.owed is None or now <= allowed_loss(self.owed, self.at_start or 0.0, delta)

    def notes(self) -> dict[str, Any]:
        """Fields for a checkpoint as JSON values, for ``LossProgress(**notes)``."""
        return asdict(self)
