"""Checks, before the first step, that all ranks have the same data.

Scripts written for Horovod give every rank its own part of the data. matex cuts each
batch itself, so a part would be cut again, and some rows never trained on. Streams that
differ in any other way are found out by their digests, in the first step.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import ft
from matex import keras_hooks
from matex.data import Batches
from matex.data.sketch import sketch
from matex.errors import InputError
from matex.sources.digests import digest
from matex.sources.select import rows_of

__all__ = ["check_same_data", "check_same_validation", "sketch_of"]

_LOOKED_AT = 16  # rows, evenly spread


def check_same_data(
    communicator: ft.Communicator, x: Any, batches: Batches | None, what: str
) -> None:
    """Check that *what* has the same data on all ranks; collective.

    Args:
        x: data as the script gave them.
        batches: the data as rows by number, if available; a few rows are read.

    Raises:
        InputError: on every rank; nothing was changed.
    """
    if communicator.initial_size == 1:
        return
    gathered = communicator.allgather(
        np.array([*_shard_of(x), *_count_and_digest(batches)], np.int64)
    )
    first = gathered.rows[0].tolist()
    for rank, row in zip(gathered.ranks, gathered.rows.tolist(), strict=True):
        if row != first:
            raise InputError(
                f"all ranks must give {what} the same, whole data, of which each takes its rows by "
                f"itself. Received: {_difference(first, row, gathered.ranks[0], rank)}"
            )


def check_same_validation(communicator: ft.Communicator, validation_data: Any) -> None:
    """Check the ``validation_data`` of fit in the same way, before its first epoch; collective."""
    if validation_data is not None:
        given = validation_data if isinstance(validation_data, tuple | list) else [validation_data]
        check_same_data(communicator, given[0], rows_of(*given[:3]), "validation_data")


def _shard_of(x: Any) -> tuple[int, int]:
    """(shards, index) of the last ``shard`` in a tf.data pipeline; (0, 0) without one."""
    pending = [x] if keras_hooks.is_dataset(x) else []
    while pending:
        dataset = pending.pop(0)
        if type(dataset).__name__ == "_ShardDataset":
            return int(dataset._num_shards), int(dataset._index)
        pending.extend(dataset._inputs())
    return 0, 0


def sketch_of(batches: Batches | None) -> list[float]:
    """Number of rows, and statistics of a few of them; empty for a stream. Local.

    See :func:`matex.data.sketch.sketch`.
    """
    if batches is None or not batches.samples:
        return []
    leaves = keras_hooks.flatten(batches.rows(_spread(batches)))
    return sketch(batches.samples, [np.asarray(leaf) for leaf in leaves])


def _spread(batches: Batches) -> np.ndarray:
    """The numbers of a few rows, evenly spread."""
    return np.unique(np.linspace(0, batches.samples - 1, _LOOKED_AT).astype(np.int64))


def _count_and_digest(batches: Batches | None) -> tuple[int, int]:
    """Number of rows, and a digest of 63 bits of some of them."""
    if batches is None or not batches.samples:
        return -1, 0
    rows = keras_hooks.flatten(batches.rows(_spread(batches)))
    return batches.samples, digest(0, rows, last=False)


def _difference(mine: list[int], other: list[int], rank: int, other_rank: int) -> str:
    if mine[:2] != other[:2]:
        return (
            f"dataset.shard({mine[0]}, {mine[1]}) on rank {rank} and "
            f"dataset.shard({other[0]}, {other[1]}) on rank {other_rank}; delete .shard(...)"
        )
    if mine[2] != other[2]:
        which = f"{mine[2]} rows on rank {rank} and {other[2]} on rank {other_rank}"
    else:
        which = f"arrays of other values on rank {other_rank} than on rank {rank}"
    return (
        f"{which}; delete what takes rows by rank, such as x[rank::size], "
        "and seed what makes or shuffles them"
    )
