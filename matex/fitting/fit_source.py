"""The global batches of one fit: rows known by number, in a ring or not, or a stream."""

from __future__ import annotations

from typing import Any

import numpy as np

import checkpoints
from matex.data import Batches
from matex.errors import InputError
from matex.fitting.batch_scaling import BatchScaling
from matex.fitting.fit_checkpoint import FitCheckpoint
from matex.run.context import RunContext
from matex.sources.interface import RowSource, Source
from matex.sources.ring_rows import RingRows
from matex.sources.select import BATCH_SIZE, MakeFeed, stream_of
from matex.sources.stream import Stream

__all__ = ["resume", "row_source", "stream_source"]


def stream_source(
    run: RunContext, make_feed: MakeFeed, given: dict[str, Any], *, epochs: int
) -> Source:
    """The source of data that come as a stream; collective.

    Args:
        run: ranks and options of the run.
        make_feed: makes Keras's own iterator.
        given: arguments from which Keras would make it.
        epochs: number of epochs that are to be made of it.

    Raises:
        InputError: alike on every rank.
    """
    if run.config.shuffle == "ring":
        raise InputError(
            "shuffle ring wants arrays or rows of matex.data.open, which are known by "
            f"number. Received: x={type(given['x']).__module__}."
            f"{type(given['x']).__name__}; give those, or leave --shuffle ring out"
        )
    return stream_of(
        run.communicator,
        make_feed,
        given,
        say=run.say_once,
        passes=max(1, epochs),
        continues=run.config.checkpoint is not None,
    )


def row_source(
    run: RunContext,
    batches: Batches,
    given: dict[str, Any],
    checkpoint: FitCheckpoint,
    scaling: BatchScaling,
    *,
    order_seed: int,
    epochs: int,
) -> Source:
    """The source of rows known by number, in a seeded order that is saved; collective.

    Args:
        run: ranks and options of the run.
        batches: rows.
        given: arguments from which Keras would make its iterator.
        checkpoint: keeps the seed of the order, and knows that of the fit it continues.
        scaling: says how many parts a batch has.
        order_seed: seed of this rank, used unless another counts: that of rank 0 does, because
            an unseeded script's differs by rank.
        epochs: epoch at which training ends.
    """
    seed = np.array([order_seed], np.int64)
    run.communicator.broadcast(seed)
    checkpoint.seed = int(seed[0])
    if checkpoint.saved is not None:
        checkpoint.seed = checkpoint.saved.cursor["seed"]
    batch_size = given["batch_size"] or BATCH_SIZE
    shuffle = bool(given["shuffle"])
    if run.config.shuffle == "ring":
        return RingRows(
            batches,
            run.communicator,
            batch_size=batch_size,
            multiplier=scaling.multiplier,
            shuffle=shuffle,
            seed=checkpoint.seed,
            epochs=epochs,
        )
    return RowSource(
        batches,
        batch_size=batch_size,
        multiplier=scaling.multiplier,
        shuffle=shuffle,
        seed=checkpoint.seed,
    )


def resume(
    source: Source, saved: checkpoints.Snapshot, run: RunContext, *, initial_epoch: int
) -> None:
    """Bring *source* to where *saved* was made; alike on all ranks.

    Raises:
        InputError: it was made of other data.
    """
    digest = saved.cursor.get("mark", 0)
    if isinstance(source, RowSource):
        source.resume(saved.cursor["samples"], digest)
    if isinstance(source, Stream):
        source.resume(saved.cursor["epoch"] - initial_epoch, digest)
        run.say("going through the data to where the checkpoint was made")
