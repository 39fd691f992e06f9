"""Choice of the source for the data of a fit or an evaluation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ft
from matex import keras_hooks
from matex.data import Batches, Table
from matex.errors import DataError, InputError, NotShareable, Unsupported
from matex.keras_hooks.data import go_over
from matex.sources.batch_size import most_rows
from matex.sources.mapped_stream import ComparedStream, MappedStream, place_variable
from matex.sources.one_order import one_order
from matex.sources.stream import Stream, specification
from matex.sources.tfdata_operations import repeats, resources_in
from matex.sources.tfdata_reorder import with_batch_before_map

__all__ = ["BATCH_SIZE", "MakeFeed", "once", "rows_of", "stream_of"]

BATCH_SIZE = 32  # Keras's own default

MakeFeed = Callable[[Any], Any]
"""Function that makes Keras's own epoch iterator over ``x``."""


def once(make_feed: MakeFeed) -> MakeFeed:
    """*make_feed* that makes one iterator for each *x*: a generator can be iterated once."""
    made: list[tuple[Any, Any]] = []

    def make(x: Any) -> Any:
        for known, feed in made:
            if known is x:
                return feed
        made.append((x, make_feed(x)))
        return made[-1][1]

    return make


def rows_of(
    x: Any,
    y: Any = None,
    sample_weight: Any = None,
    class_weight: dict[int, float] | None = None,
    steps_per_epoch: int | None = None,
    batch_size: int | None = None,
    **_: Any,
) -> Batches | None:
    """Data as rows by number; None if they can only be read in sequence. Local.

    None also for arrays that Keras knows and that do not fit together or have no rows, and for
    impossible batch sizes: Keras's own iterator raises the best error for them.

    Raises:
        InputError: tables of matex's own that do not fit together.
        DataError: some values of the data cannot be read.
    """
    if steps_per_epoch or keras_hooks.is_stream(x) or not _is_size(batch_size):
        return None
    try:
        return Batches(x, y, sample_weight, class_weight=class_weight)
    except Unsupported:
        return None
    except DataError:
        raise
    except InputError:
        if any(isinstance(leaf, Table) for leaf in keras_hooks.flatten((x, y, sample_weight))):
            raise
        return None


def stream_of(
    communicator: ft.Communicator,
    make_feed: MakeFeed,
    given: dict[str, Any],
    *,
    say: Callable[[str], None],
    limit: int | None = None,
    continues: bool = False,
    of_raw: bool = False,
) -> Stream:
    """Data from Keras's own pipeline, with its work shared if possible. Local.

    Args:
        limit: number of batches that are taken before the data begin anew, if a number of steps is
            given; None, the default, if unknown.
        continues: another run may go on in the middle of these data, as from a checkpoint.
        of_raw: the data may have to be compared with a checkpoint of raw batches, as several ranks
            make them.
        say: tells the user one line, once.

    Raises:
        NotShareable: batches that cannot be cut into rows.
    """
    x = given["x"]
    is_pipeline = keras_hooks.is_dataset(x)
    stream: Stream | None = None
    if is_pipeline and (communicator.initial_size > 1 or of_raw):
        stream = _mapped(communicator, make_feed, given, say, limit)
    if stream is None:
        stream = _whole(communicator, make_feed, given, limit, continues)
    if is_pipeline:
        stream.resources = resources_in(x)
    return stream


def _whole(
    communicator: ft.Communicator,
    make_feed: MakeFeed,
    given: dict[str, Any],
    limit: int | None,
    continues: bool,
) -> Stream:
    """Data of which each rank reads whole batches."""
    x = given["x"]
    if keras_hooks.is_dataset(x) and (communicator.initial_size > 1 or continues):
        x = one_order(x)
    feed = make_feed(x)
    dataset = keras_hooks.dataset_of(feed, limit=limit)
    rows = most_rows(given["x"] if keras_hooks.is_dataset(x) else dataset)
    return Stream(feed, specification(dataset), most_rows=rows)


def _mapped(
    communicator: ft.Communicator,
    make_feed: MakeFeed,
    given: dict[str, Any],
    say: Callable[[str], None],
    limit: int | None,
) -> Stream | None:
    """Data of a tf.data pipeline whose maps each rank runs on its own rows only."""
    x = given["x"]
    if given.get("steps_per_epoch") is None:
        limit = None
    elif limit is None and repeats(x):
        return None  # it would read ahead, beyond the batches that are taken
    try:
        pipeline = with_batch_before_map(x)
        if pipeline is not None and given.get("class_weight"):
            raise NotShareable("class_weight is mapped over whole batches")
    except NotShareable as reason:
        if communicator.initial_size > 1:
            say(
                f"every rank runs the whole tf.data pipeline and takes its rows, because {reason}; "
                "deterministic maps before the batch are shared"
            )
        return None
    if pipeline is None:
        return None
    place = place_variable(communicator)
    feed = make_feed(pipeline.ahead(place))
    if limit is not None:  # which Keras must not take for the end of the data
        go_over(feed, pipeline.ahead(place, limit=limit + 1))
    rows = most_rows(x)
    if communicator.initial_size == 1:
        return ComparedStream(feed, pipeline.element_spec, most_rows=rows)
    return MappedStream(feed, pipeline, place, communicator, most_rows=rows)


def _is_size(batch_size: Any) -> bool:
    return batch_size is None or (hasattr(batch_size, "__index__") and batch_size >= 0)
