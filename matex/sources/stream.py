"""Batches that arrive in sequence: tf.data, PyDataset, generators, arrays with a step count.

Keras's own code makes them, equally on every rank, so epochs, repetition, class weights and the end
of data are as in one process. Each rank takes its rows of each batch.

That the ranks get the same batches is checked: the digest of a row is its number mixed with a hash
of all earlier data and of whether more follows. The hashes travel with the gradients, so if one
rank's data differ, the sum is wrong on every rank, and no update is made.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf
from keras import tree

from matex import keras_hooks
from matex.errors import DataError, InputError, NotShareable
from matex.partition.slot_capacity import SlotCapacity
from matex.partition.spans import Span
from matex.sources.digests import digest, older_digest
from matex.sources.stream_batch import StreamBatch

__all__ = [
    "Stream",
    "flat_signature",
    "leaves_of",
    "rows_in",
    "specification",
]


@dataclass
class _PossibleDigest:
    """Digest that a checkpoint may have in place of the stream's own.

    ``of_other`` is whether it is of batches as streams see them whose ``is_raw`` differs.
    """

    of_other: bool
    digest: Callable[[int, Sequence[Any], bool], int]
    value: int = 0


class Stream:
    """A source of batches made by Keras. Local.

    One batch is read ahead, so that the end of the data is known, and included in the comparison of
    ranks, before the last step is made. If that fails, the batches before are trained on first.

    Args:
        feed: Keras's epoch iterator over the user's data.
        specification: structure, shapes and dtypes of its batches.
        most_rows: largest number of rows of a batch; None if unknown.

    Raises:
        NotShareable: batches are not made of tensors with rows.
    """

    explanation = (
        "all ranks must get the same batches in the same order. Received: batches that differ; "
        "delete what shards the data by rank, because each rank takes its rows by itself, and "
        "seed every random generator of the input (keras.utils.set_random_seed does it for "
        "Python's, NumPy's and TensorFlow's global ones)"
    )
    order = "stream"
    is_raw = False
    """Whether digests are of the batches as they were before the maps of a pipeline."""

    def __init__(self, feed: Any, specification: Any, *, most_rows: int | None = None) -> None:
        self._feed = feed
        self._specification = specification
        self._iterator: Any = None
        self._ahead: tuple[list[Any], Any] | None = None
        self._failure: tf.errors.OpError | None = None
        self._cursor = 0
        self._left = 0
        self._resumed: tuple[int, int] | None = None
        self._candidates: list[_PossibleDigest] = []
        self._mismatch: type[InputError] = InputError
        self.signature = flat_signature(specification)
        # Not a method: a traced step keeps it, and would keep the data with it.
        self.as_data = functools.partial(leaves_of, specification)
        leaves = [leaf for leaf in tree.flatten(specification) if _is_data(leaf)]
        self.built_on = leaves_of(specification, leaves)
        self.samples: int | None = None
        self.most_rows = most_rows
        self.resources: frozenset[int] = frozenset()
        self.capacity: SlotCapacity | None = SlotCapacity(
            most_rows or 1, (1,) * len(self.signature)
        )
        self.digest = 0

    @property
    def num_batches(self) -> int | None:
        steps: int | None = self._feed.num_batches
        return steps

    @property
    def ran_out(self) -> bool:
        return self._ahead is None and self._left > 0

    def reset(self) -> None:
        self._feed.reset()

    def resume(self, epochs: int, known: int, *, is_raw: bool | None, alone: bool = False) -> None:
        """Continue after *epochs* earlier epochs, whose digest is *known*.

        Args:
            is_raw: the ``is_raw`` of the stream that *known* is of; None if it is not known, as of
                an older version.
            alone: whether the other ranks made them themselves, and need no resuming; off by
                default.
        """
        self._resumed = epochs, known
        kinds = [False] if is_raw == self.is_raw else [False, True]
        makers = [digest, older_digest] if is_raw is None else [digest]
        every = [_PossibleDigest(of_other, make) for make in makers for of_other in kinds]
        self._candidates = every[1:]  # the first is the stream's own
        self._mismatch = DataError if alone else InputError

    def epoch(self, epoch: int, cursor: int, steps_per_execution: int) -> Iterator[tuple[int, int]]:
        resumed, self._resumed = self._resumed, None
        if resumed is not None:
            self._skip(resumed[0], steps_per_execution)
        self._cursor = 0
        is_over, last = cursor > 0, -1
        for first, last, iterator in self._feed:
            if iterator is not self._iterator:
                self._iterator = iterator
                self._ahead = self._read()
            self._left = steps_per_execution
            while self._left and self._cursor < cursor and self.next() is not None:
                pass  # was trained on before the checkpoint
            if resumed is not None and self._cursor >= cursor:
                self._compare(resumed[1])
                resumed = None
            if self._left:
                is_over = False
                yield first + steps_per_execution - self._left, last
        if is_over and last >= 0:
            yield last, last  # the checkpoint was made after the last step: there is none left

    def catch_stop_iteration(self) -> contextlib.AbstractContextManager[None]:
        context: contextlib.AbstractContextManager[None] = self._feed.catch_stop_iteration()
        return context

    def sample(self) -> None:
        """Return None: a batch cannot be read twice."""

    def after_step(self, step: int) -> tuple[int, int]:
        return 0, 0

    def report(self) -> dict[str, Any]:
        return {}

    def close(self) -> None:
        """Release the data, as Keras does. It must not be left to garbage collection.

        That would wait for the iterator's threads, which TensorFlow may let sleep for a minute.
        """
        self._feed = self._iterator = self._ahead = None

    def next(self) -> StreamBatch | None:
        if self._failure is not None and self.ran_out:
            raise self._failure
        if self._ahead is None or not self._left:
            return None
        self._left -= 1
        tensors, extra = self._ahead
        self._ahead = self._read()
        last = self._ahead is None and self._failure is None
        span = self._cursor, self._cursor + rows_in(tensors)
        self._cursor = span[1]
        self.digest = digest(self.digest, tensors, last)
        for one in self._candidates:
            if seen := self._other(tensors, extra) if one.of_other else tensors:
                one.value = one.digest(one.value, seen, last)
        return self._cut(tensors, extra, span, last)

    def _read(self) -> tuple[list[Any], Any] | None:
        self._failure = None
        try:
            batch = next(self._iterator)
        except (StopIteration, tf.errors.OutOfRangeError):
            return None
        except tf.errors.OpError as error:  # whatever a generator of the script raises
            self._failure = error
            return None
        return self._fetched(batch)

    def _fetched(self, batch: Any) -> tuple[list[Any], Any]:
        """Tensors of *batch* that ranks divide and compare, and its other parts."""
        leaves = zip(tree.flatten(self._specification), tree.flatten(batch), strict=True)
        return [tensor for leaf, tensor in leaves if _is_data(leaf)], None

    def _cut(self, tensors: list[Any], extra: Any, span: Span, last: bool) -> StreamBatch:
        return StreamBatch(tensors, span, self.digest, last)

    def _other(self, tensors: list[Any], extra: Any) -> Sequence[Any]:
        """The batch as streams see it whose ``is_raw`` differs; empty if there are none."""
        return ()

    @property
    def _compares_other(self) -> bool:
        return any(one.of_other for one in self._candidates)

    def _compare(self, known: int) -> None:
        found = [self.digest, *(one.value for one in self._candidates)]
        self._candidates = []
        if known not in found:
            raise self._mismatch(
                "a resumed run must get the same batches in the same order as the interrupted one. "
                "Received: others; seed every random generator of the input before it is made, let "
                "its maps read no variable that training changes, or give an empty checkpoint "
                "directory to start anew"
            )

    def _skip(self, epochs: int, steps_per_execution: int) -> None:
        for epoch in range(epochs):
            with self.catch_stop_iteration():
                for _ in self.epoch(epoch, 0, steps_per_execution):
                    if self.next() is None:
                        raise StopIteration  # as Keras's own step function does
                    while self.next() is not None:
                        pass


def specification(dataset: Any) -> Any:
    """The element's structure, with specifications or, for None, ``tf.OptionalSpec`` leaves.

    Raises:
        NotShareable: a leaf of another kind.
    """
    found = dataset.element_spec
    for leaf in tree.flatten(found):
        if not keras_hooks.are_rows(leaf) and _is_data(leaf):
            raise NotShareable(
                f"batches that ranks share are of dense, sparse or ragged tensors. Received: {leaf}"
            )
    return found


def flat_signature(specification: Any) -> tuple[Any, ...]:
    """The data leaves of *specification* with a free batch dimension."""
    leaves = tree.flatten(specification)
    return tuple(keras_hooks.with_rows(leaf, None) for leaf in leaves if _is_data(leaf))


def leaves_of(specification: Any, leaves: Sequence[Any]) -> Any:
    """Structure of *specification* with *leaves*, and None for missing ones."""
    given = iter(leaves)
    return tree.map_structure(lambda leaf: next(given) if _is_data(leaf) else None, specification)


def _is_data(leaf: Any) -> bool:
    return not isinstance(leaf, tf.OptionalSpec)


def rows_in(tensors: Sequence[Any]) -> int:
    """Number of rows of a batch: that of its longest tensor; at least 1 for scalars."""
    counts = [keras_hooks.row_count(tensor) for tensor in tensors]
    return max(counts) if max(counts) >= 0 else 1
