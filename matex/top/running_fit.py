"""The call of ``fit`` that runs, from the event of its begin. Pure."""

from __future__ import annotations

from typing import NamedTuple

from matex.records.events import Event

__all__ = ["RunningFit", "running_fit"]


class RunningFit(NamedTuple):
    """The call of ``fit`` that runs: epochs are counted from 0."""

    epoch: int
    epochs: int
    began: int
    """Steps that were done when the epoch began."""
    steps: int | None
    """Steps of an epoch; None where they are counted as they come."""


def running_fit(event: Event) -> RunningFit | None:
    """The fit that *event* begins; None where every rank computes whole batches."""
    if "epochs" not in event:
        return None
    batch, samples = event["batch_size"], event["samples"]
    return RunningFit(
        epoch=event["first_epoch"],
        epochs=event["epochs"],
        began=event["step"] - event["cursor"] // batch,
        steps=None if samples is None else -(-samples // batch),
    )
