"""Which kind of source the data of a fit or an evaluation are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from matex import keras_hooks
from matex.data import Batches
from matex.errors import Unsupported
from matex.stream import Stream, specification

__all__ = ["BATCH_SIZE", "MakeFeed", "once", "rows_of", "stream_of"]

BATCH_SIZE = 32  # Keras's own default

MakeFeed = Callable[[Any], Any]
"""Makes Keras's own epoch iterator over what is given as ``x``."""


def once(make_feed: MakeFeed) -> MakeFeed:
    """*make_feed* that makes one iterator, however often it is called: a generator has only one."""
    made: list[Any] = []

    def make(x: Any) -> Any:
        if not made:
            made.append(make_feed(x))
        return made[0]

    return make


def rows_of(
    x: Any,
    y: Any = None,
    sample_weight: Any = None,
    class_weight: dict[int, float] | None = None,
    steps_per_epoch: int | None = None,
    **_: Any,
) -> Batches | None:
    """The data as rows by number, None where they can only be taken as they come. Local.

    Raises:
        InputError: arrays that do not fit together.
    """
    if steps_per_epoch or keras_hooks.is_stream(x):
        return None
    try:
        return Batches(x, y, sample_weight, class_weight=class_weight)
    except Unsupported:
        return None


def stream_of(x: Any, make_feed: MakeFeed) -> Stream:
    """The data as they come out of Keras's own pipeline. Local.

    Raises:
        NotShareable: batches that cannot be cut into rows.
    """
    if isinstance(x, tf.data.Dataset):
        options = tf.data.Options()
        options.deterministic = True  # all ranks must see one order
        x = x.with_options(options)
    feed = make_feed(x)
    return Stream(feed, specification(keras_hooks.dataset_of(feed)))
