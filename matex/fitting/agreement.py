"""Checks that all ranks make the same call with the same data and weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import ft
from matex import keras_hooks
from matex.checkpointing import model_state
from matex.errors import InputError, ReplicasDiverged
from matex.sources.interface import Source

__all__ = ["check_alike", "check_equal", "check_hashes"]


def check_alike(
    communicator: ft.Communicator,
    model: Any,
    source: Source,
    batch_size: int,
    *,
    number: int,
    epochs: int,
    steps: int | None,
) -> None:
    """Check that all ranks are about to make the same fit; collective.

    Args:
        number: number of the fit in the script, from 0.
        epochs: number of epochs that the script gave.
        steps: number of steps of an epoch that it gave, or None.

    Raises:
        InputError: they are not; on every rank.
    """
    samples = -1 if source.samples is None else source.samples
    parameters = keras_hooks.parameters(model)
    mine = [samples, batch_size, parameters, number, epochs, -1 if steps is None else steps]
    gathered = communicator.allgather(np.array(mine, np.int64))
    for rank, row in zip(gathered.ranks, gathered.rows, strict=True):
        if (row != gathered.rows[0]).any():
            raise InputError(
                "all ranks must call fit alike: (samples, batch size, parameters, which fit, "
                "epochs, steps per epoch; -1 if unknown). "
                f"Received: {gathered.rows[0].tolist()} on rank {gathered.ranks[0]}, "
                f"{row.tolist()} on rank {rank}"
            )


def check_equal(communicator: ft.Communicator, model: Any, what: str) -> None:
    """Check that all ranks hold equal weights before they share *what*; collective.

    Raises:
        ReplicasDiverged: they do not; on every rank.
    """
    mine = int(model_state.weights_hash(model_state.weights_of(model)), 16)
    gathered = communicator.allgather(np.array([mine], np.uint64))
    check_hashes(gathered.ranks, gathered.rows[:, 0].tolist(), f"before {what}")


def check_hashes(ranks: Sequence[int], hashes: Sequence[int], when: str) -> None:
    """Check that the hashes of all *ranks* are equal. Local, with the same result on all ranks.

    Raises:
        ReplicasDiverged: they differ; the message names the ranks.
    """
    if len(set(hashes)) > 1:
        table = ", ".join(f"rank {r}: {h:016x}" for r, h in zip(ranks, hashes, strict=True))
        raise ReplicasDiverged(
            f"{when} all ranks must hold equal weights. Received hashes: {table}; "
            "are initial weights seeded (keras.utils.set_random_seed), and does a callback change "
            "weights on one rank only? Else a bit flipped in the memory of one: start the run "
            "again, from its checkpoint if it has one"
        )
