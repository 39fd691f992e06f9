"""Progress of a fit that a rank which joins it must know besides a checkpoint. Local."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

import checkpoints
from matex.partition.passes import Passes
from matex.partition.slot_capacity import SlotCapacity

__all__ = ["FitProgress"]

# Name in ``extra``; no checkpoint holds it.
_PROGRESS = "progress"


@dataclass(frozen=True, kw_only=True)
class FitProgress:
    """Counts and knowledge that are equal on all ranks of a running fit; sent as JSON.

    Args:
        counts: :meth:`matex.run.ledger.RunLedger.counts`.
        replica_pace: ``pace`` of the replica check.
        save_numbers: ``numbers`` of the saver.
        history: :func:`matex.keras_hooks.history_of` the fit.
        validated: passes through its validation data.
        at_risk: samples of the running step that dead ranks left undone, by rank.
        checked: numbers of the updates whose separability was checked.
        capacity: capacity of the step's slots for slices; None if it has none.
        histories: numbers and histories of the fits that joining ranks pass over.
        wanted: number of ranks that are to live.
        active: number of them that train; the others are spares.
    """

    counts: dict[str, Any]
    replica_pace: tuple[int, int]
    save_numbers: list[int]
    history: dict[str, Any]
    validated: Passes
    at_risk: list[tuple[int, int]]
    checked: list[int]
    capacity: SlotCapacity | None
    histories: list[tuple[int, dict[str, Any]]]
    wanted: int
    active: int

    def packed(self) -> dict[str, np.ndarray]:
        """Entry for ``extra`` of a snapshot."""
        return {_PROGRESS: np.frombuffer(json.dumps(asdict(self)).encode(), np.uint8)}

    @classmethod
    def stored_in(cls, saved: checkpoints.Snapshot) -> FitProgress:
        """Progress that :meth:`packed` put into *saved*."""
        fields: Mapping[str, Any] = json.loads(saved.extra[_PROGRESS].tobytes())
        capacity = fields["capacity"]
        if capacity is not None:
            capacity = SlotCapacity(capacity[0], tuple(capacity[1]))
        validated = Passes(*fields["validated"])
        return cls(**{**fields, "capacity": capacity, "validated": validated})
