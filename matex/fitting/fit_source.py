"""Source of the global batches of a fit: rows known by number, or a stream."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import checkpoints
from matex import keras_hooks
from matex.data import Batches
from matex.errors import InputError
from matex.fitting.batch_scaling import BatchScaling
from matex.fitting.fit_state.fit_facts import FitFacts
from matex.fitting.fit_state.saved_cursor import RAW
from matex.partition.order import OrderSeed, RowOrder, as_stored, shuffled_anew
from matex.run.context import RunContext
from matex.run.terminal import Terminal
from matex.sources.interface import RowSource, Source
from matex.sources.ring_rows import RingRows
from matex.sources.select import BATCH_SIZE, MakeFeed, stream_of
from matex.sources.stream import Stream

__all__ = ["resume", "row_source", "stream_source"]

# Keras's own permutation of 10^7 rows takes 1.5 s, and memory for a few copies of the row numbers.
_MOST_OF_KERAS = 1 << 27


def stream_source(
    run: RunContext,
    make_feed: MakeFeed,
    given: dict[str, Any],
    facts: FitFacts,
    saved: checkpoints.Snapshot | None,
    *,
    epochs: int,
    steps_at_once: int,
) -> Source:
    """Source of data that arrive as a stream; collective.

    Args:
        run: ranks and options of the run.
        make_feed: function that makes Keras's own iterator.
        given: arguments from which Keras would construct it.
        facts: facts about the fit, of which the kind of the stream's digests is set.
        saved: snapshot from which the fit continues; None if it begins.
        epochs: number of epochs.
        steps_at_once: number of steps of each call of Keras's train function.

    Raises:
        InputError: on every rank.
    """
    steps = given["steps_per_epoch"]
    in_epoch = steps and -(-steps // steps_at_once) * steps_at_once
    if run.config.shuffle == "ring":
        raise InputError(
            "shuffle ring wants arrays or rows of matex.data.open, which are known by "
            f"number. Received: x={type(given['x']).__module__}."
            f"{type(given['x']).__name__}; give those, or leave --shuffle ring out"
        )
    stream = stream_of(
        run.communicator,
        make_feed,
        given,
        say=run.terminal.say_once,
        limit=in_epoch and in_epoch * max(1, epochs),
        continues=run.config.checkpoint is not None,
        of_raw=saved is not None and bool(saved.cursor.get(RAW, 1)),
    )
    facts.is_raw = stream.is_raw
    return stream


def row_source(
    run: RunContext,
    batches: Batches,
    given: dict[str, Any],
    facts: FitFacts,
    saved: checkpoints.Snapshot | None,
    scaling: BatchScaling,
    *,
    order_seed: OrderSeed,
    epochs: int,
) -> Source:
    """Source of rows known by number, in an order whose seed is saved; collective.

    Args:
        run: ranks and options of the run.
        batches: rows.
        given: arguments from which Keras would construct its iterator.
        facts: facts about the fit, of which the seeds of the order are set.
        saved: snapshot from which the fit continues, with its seeds; None if it begins.
        scaling: number of parts of a batch.
        order_seed: seeds of this rank; rank 0's are used unless a checkpoint has others, because an
            unseeded script's differ by rank.
        epochs: epoch at which training ends.
    """
    cursor = order_seed.cursor()
    seeds = np.array(list(cursor.values()), np.int64)
    run.communicator.broadcast(seeds)
    facts.seed = OrderSeed.of_cursor(dict(zip(cursor, seeds.tolist(), strict=True)))
    if saved is not None:
        facts.seed = OrderSeed.of_cursor(saved.cursor)
    batch_size = given["batch_size"] or BATCH_SIZE
    if run.config.shuffle == "ring":
        return RingRows(
            batches,
            run.communicator,
            batch_size=batch_size,
            multiplier=scaling.multiplier,
            shuffle=bool(given["shuffle"]),
            seed=facts.seed.own,
            epochs=epochs,
        )
    chosen = _order(batches.samples, batch_size, given["shuffle"], facts.seed)
    return RowSource(
        batches,
        batch_size=batch_size,
        multiplier=scaling.multiplier,
        row_order=chosen.row_order,
        order=chosen.word,
    )


class _Chosen(NamedTuple):
    """Order of a fit's samples, and its name."""

    word: str
    row_order: RowOrder


def _order(samples: int, batch_size: int, shuffle: Any, seed: OrderSeed) -> _Chosen:
    """Keras's own order if the script set a seed, else a different one in each epoch.

    Args:
        samples: number of rows.
        batch_size: number of rows of a step, as given by the script.
        shuffle: argument of ``fit``.
        seed: seeds that determine the order.
    """
    if not shuffle:
        return _Chosen("stored", as_stored(samples))
    if seed.keras is None or samples > _MOST_OF_KERAS:
        return _Chosen("anew", shuffled_anew(samples, seed.own))
    visits = keras_hooks.shuffled_rows(samples, batch_size, shuffle, seed=seed.keras)
    return _Chosen("keras", lambda epoch: visits)


def resume(
    source: Source, saved: checkpoints.Snapshot, terminal: Terminal, *, initial_epoch: int
) -> None:
    """Advance *source* to the position at which *saved* was made; equally on all ranks.

    Raises:
        InputError: it was made with other data.
    """
    digest = saved.cursor.get("mark", 0)
    if isinstance(source, RowSource):
        source.resume(saved.cursor["samples"], digest)
    if isinstance(source, Stream):
        epochs = saved.cursor["epoch"] - initial_epoch
        raw = saved.cursor.get(RAW)  # an older checkpoint does not tell
        source.resume(epochs, digest, is_raw=None if raw is None else bool(raw))
        terminal.say("going through the data to where the checkpoint was made")
