"""Who computed something that is not finite, and what."""

from __future__ import annotations

import numpy as np

import ft
from matex.errors import NonFiniteGradients
from matex.exchange import Layout

__all__ = ["blame"]

_BYTES = 512


def blame(
    communicator: ft.Communicator, layout: Layout, spoiled: np.ndarray | None, *, step: int
) -> NonFiniteGradients:
    """The error that names ranks and tensors; collective.

    Args:
        spoiled: this rank's contribution where it is not finite, else None.
    """
    mine = "" if spoiled is None else ", ".join(layout.blame(spoiled))
    row = np.zeros(_BYTES, np.uint8)
    text = mine.encode()[:_BYTES]
    row[: len(text)] = np.frombuffer(text, np.uint8)
    gathered = communicator.allgather(row)
    guilty = {
        rank: bytes(line).rstrip(b"\0").decode(errors="replace")
        for rank, line in zip(gathered.ranks, gathered.rows, strict=True)
        if line.any()
    }
    names = "; ".join(f"rank {rank}: {what}" for rank, what in guilty.items())
    return NonFiniteGradients(
        f"step {step} has gradients that are not finite: {names}. "
        "No weight was changed by this step; look at the learning rate and at those samples"
    )
