"""Prediction shared among the ranks: each computes its rows of a batch, all hold the outputs.

Outputs travel as bytes, each rank's rows in their place and zeros elsewhere, so that
sums put them together exactly, whatever their type.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf
from keras import tree

import ft
from matex.errors import TrainingError
from matex.feeds.source import GlobalBatch, Source
from matex.partition import Span, assigned, difference
from matex.unheard import unheard

__all__ = ["Predicted", "SharedPrediction", "joined"]

Predict = Callable[[list[Any]], Any]

_SLOT = 8  # bytes of a rank's mark
_CLOSE = 1e-2  # how much outputs of half a batch may differ from those of the whole


class Predicted:
    """The outputs for one batch, whole, in place of its data."""

    def __init__(self, outputs: Any) -> None:
        self.outputs = outputs


def joined(batches: list[Predicted]) -> Any:
    """The outputs of several batches as those of one."""
    if len(batches) == 1:
        return batches[0].outputs
    return tree.map_structure(lambda *parts: tf.concat(parts, 0), *(b.outputs for b in batches))


class SharedPrediction:
    """What ``predict`` iterates over in place of Keras's own iterator.

    Whether outputs belong to rows is tried out on the first batch, unless there is one rank
    only; where they do not, every rank computes all of every batch.

    Args:
        predict: Keras's own predict function.
        faults: may strike in phase ``validation``.
        progress: called after each batch.
        say: one line for the user.
    """

    def __init__(
        self,
        communicator: ft.Communicator,
        source: Source,
        *,
        predict: Predict,
        at_once: int,
        faults: ft.Injector,
        progress: Callable[[], None],
        say: Callable[[str], None],
    ) -> None:
        self._communicator = communicator
        self._source = source
        self._predict = predict
        self._at_once = at_once
        self._faults = faults
        self._progress = progress
        self._say = say
        self._by_rows: bool | None = None

    @property
    def num_batches(self) -> int | None:
        """Of a pass, where known."""
        return self._source.num_batches

    def reset(self) -> None:
        """Keras calls it before the pass."""
        self._source.reset()

    def catch_stop_iteration(self) -> contextlib.AbstractContextManager[None]:
        """Around the pass."""
        return self._source.catch_stop_iteration()

    def __iter__(self) -> Iterator[tuple[int, int, SharedPrediction]]:
        self._faults.at("validation")
        for first, last in self._source.epoch(0, 0, self._at_once):
            yield first, last, self

    def __next__(self) -> Predicted:
        """The outputs of the next batch; collective.

        Raises:
            StopIteration: there is none.
            TrainingError: the ranks' data differ; on all of them.
        """
        batch = self._source.next()
        if batch is None:
            raise StopIteration
        lo, hi = batch.span
        if self._communicator.initial_size == 1:
            outputs = self._compute(batch, [batch.span])
        elif self._by_rows is None:
            outputs = self._try_out(batch)
        elif self._by_rows and hi - lo >= len(self._communicator.pending.expected):
            outputs = self._share(batch)
        else:
            outputs = self._compute(batch, [batch.span])
        self._progress()
        return Predicted(outputs)

    def _compute(self, batch: GlobalBatch, spans: list[Span]) -> Any:
        return self._predict([self._source.as_data(batch.rows(spans))])

    def _try_out(self, batch: GlobalBatch) -> Any:
        """The outputs of a first batch, computed on every rank; collective."""
        lo, hi = batch.span
        whole = self._compute(batch, [batch.span])
        if hi - lo > 1:
            middle = (lo + hi) // 2
            with unheard():
                half = self._compute(batch, [(lo, middle)])
            pairs = zip(tree.flatten(whole), tree.flatten(half), strict=True)
            by_rows = all(_belongs_to_rows(w, h, hi - lo, middle - lo) for w, h in pairs)
            self._by_rows = self._communicator.agree(by_rows)
            if not self._by_rows:
                self._say("every rank predicts all: outputs of a batch do not belong to its rows")
        return whole

    def _share(self, batch: GlobalBatch) -> Any:
        communicator = self._communicator
        have = self._assigned(batch)
        pieces = [(span, self._compute(batch, [span])) for span in have]
        marks = np.zeros((communicator.initial_size, _SLOT), np.uint8)
        mark = (batch.fingerprint([batch.span]) + 1).to_bytes(_SLOT, "little")
        marks[communicator.world.rank] = np.frombuffer(mark, np.uint8)
        while True:
            leaves = _placed(batch.span, pieces)
            send = np.concatenate([*(_bytes(leaf) for leaf in leaves), marks.reshape(-1)])
            total = np.empty_like(send)
            try:
                communicator.allreduce(send, total)
                break
            except ft.PeerFailure:
                if communicator.recover().finished:
                    break
                wanted = self._assigned(batch)
                missing = difference(wanted, have)
                if missing is None:  # a second death moved the pieces: start over
                    pieces, missing = [], wanted
                pieces += [(span, self._compute(batch, [span])) for span in missing]
                have = wanted
        seen = total[-marks.size :].reshape(marks.shape)
        if len({row.tobytes() for row in seen if row.any()}) > 1:
            raise TrainingError(f"predict: {self._source.explanation}")
        return _unpacked(total, leaves, pieces[0][1])

    def _assigned(self, batch: GlobalBatch) -> list[Span]:
        pending, world = self._communicator.pending, self._communicator.world
        return assigned(batch.span, pending.expected, pending.lost, world.rank)


def _placed(span: Span, pieces: list[tuple[Span, Any]]) -> list[np.ndarray]:
    """Arrays for all rows of the batch, with what this rank computed in its place."""
    lo, hi = span
    first = tree.flatten(pieces[0][1])
    leaves = [np.zeros((hi - lo, *p.shape[1:]), p.dtype.as_numpy_dtype) for p in first]
    for (start, end), outputs in pieces:
        for leaf, output in zip(leaves, tree.flatten(outputs), strict=True):
            leaf[start - lo : end - lo] = output.numpy()
    return leaves


def _unpacked(total: np.ndarray, leaves: list[np.ndarray], like: Any) -> Any:
    result, start = [], 0
    for leaf in leaves:
        part = total[start : start + leaf.nbytes].view(leaf.dtype).reshape(leaf.shape)
        result.append(tf.constant(part))
        start += leaf.nbytes
    return tree.pack_sequence_as(like, result)


def _belongs_to_rows(whole: Any, half: Any, rows: int, half_rows: int) -> bool:
    if not (isinstance(whole, tf.Tensor) and isinstance(half, tf.Tensor)):
        return False  # sparse or ragged
    if whole.dtype == tf.string or whole.shape.rank == 0:
        return False
    if tuple(half.shape) != (half_rows, *whole.shape[1:]) or whole.shape[0] != rows:
        return False
    a, b = whole.numpy()[:half_rows], half.numpy()
    return bool(np.allclose(a.astype(float), b.astype(float), _CLOSE, _CLOSE, equal_nan=True))


def _bytes(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
