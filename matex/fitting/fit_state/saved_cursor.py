"""Position of a fit in a checkpoint: names in its cursor, and what they say. Pure."""

from __future__ import annotations

import checkpoints

__all__ = [
    "LOOP",
    "RAW",
    "STOPPED",
    "VALIDATED",
    "first_epoch",
    "is_of_fit",
    "stops_inside",
]

#: Name of a custom loop's number of steps.
LOOP = "loop"

#: Name of the flag that ``mark``, the digest of a stream, is of batches before their maps.
RAW = "raw"

#: Name of the flag that training was stopped there.
STOPPED = "stopped"

#: Name of the number of passes through the validation data.
VALIDATED = "validated"


def is_of_fit(saved: checkpoints.Snapshot | None, number: int) -> bool:
    """Whether fit *number* of the script made *saved*, and not a custom loop before it."""
    return saved is not None and saved.cursor["fit"] == number and LOOP not in saved.cursor


def first_epoch(saved: checkpoints.Snapshot, epochs: int) -> int:
    """Epoch in which a fit of *epochs* epochs goes on; *epochs* if it was stopped before."""
    epoch = int(saved.cursor["epoch"])
    is_over = saved.cursor.get(STOPPED) and not saved.cursor["samples"]
    return max(epoch, epochs) if is_over else epoch


def stops_inside(saved: checkpoints.Snapshot) -> bool:
    """Whether training was stopped inside the epoch of *saved*, whose end is still to come."""
    return bool(saved.cursor.get(STOPPED) and saved.cursor["samples"])
