"""Texts that all ranks learn of all."""

from __future__ import annotations

import numpy as np

import ft

__all__ = ["allgather_texts"]


def allgather_texts(communicator: ft.Communicator, mine: str, nbytes: int) -> dict[int, str]:
    """Texts of all ranks, by rank; collective.

    Args:
        communicator: communicator of all ranks.
        mine: text of this rank.
        nbytes: number of bytes, equal on all ranks, after which texts are cut.
    """
    row = np.frombuffer(mine.encode()[:nbytes].ljust(nbytes, b"\0"), np.uint8)
    gathered = communicator.allgather(row)
    return {
        rank: bytes(line).rstrip(b"\0").decode(errors="ignore")
        for rank, line in zip(gathered.ranks, gathered.rows, strict=True)
    }
