"""Prediction shared among the ranks: each computes its rows, all get all outputs.

Outputs travel as bytes, each rank's rows in their places and zeros elsewhere, so that a sum joins
them exactly, whatever their dtype.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import ft
from matex import keras_hooks
from matex.errors import NotShareable, TrainingError
from matex.exchange import sums
from matex.keras_hooks.generators import IdleDraws
from matex.partition.spans import Span, assigned
from matex.sources.interface import GlobalBatch, Source
from matex.steps.graphs.graph_inspection import drawing, writes
from matex.steps.script_code.muted_output import unheard
from matex.steps.script_code.user_code import attempted
from matex.steps.separability.graph_results import uses
from matex.steps.separability.row_mixing import combined_rows

__all__ = ["Predicted", "SharedPrediction", "joined"]

_SLOT = 8  # bytes of a rank's digest
_EFFECT = "predict_step draws random numbers, or changes variables"
_CLOSE = 1e-2  # how much outputs of halves of a batch may differ from those of the whole


class Predicted:
    """Outputs for one whole batch, in place of its data."""

    def __init__(self, outputs: Any) -> None:
        self.outputs = outputs


def joined(batches: list[Predicted]) -> Any:
    """Outputs of several batches, concatenated."""
    if len(batches) == 1:
        return batches[0].outputs
    return keras_hooks.map_structure(
        lambda *parts: keras_hooks.joined(parts), *(b.outputs for b in batches)
    )


class SharedPrediction:
    """Iterator of ``predict`` in place of Keras's own.

    Whether outputs belong to rows is tried out on the first batch, unless there is one rank
    only; where they do not, every rank computes all of every batch.

    Args:
        model: model that predicts.
        faults: may strike in phase ``validation``.
        progress: function called after each batch.
        say: function that prints a line for the user.
    """

    def __init__(
        self,
        communicator: ft.Communicator,
        source: Source,
        *,
        model: Any,
        steps_per_execution: int,
        faults: ft.Injector,
        progress: Callable[[], None],
        say: Callable[[str], None],
    ) -> None:
        self._communicator = communicator
        self._source = source
        self._model = model
        self._predict = model.predict_function.original
        self._steps_per_execution = steps_per_execution
        self._faults = faults
        self._progress = progress
        self._say = say
        self._by_rows: bool | None = None
        self._idle = IdleDraws()

    @property
    def num_batches(self) -> int | None:
        """Number of batches of a pass; None if unknown."""
        return self._source.num_batches

    def reset(self) -> None:
        """Reset the source; Keras calls it before the pass."""
        self._source.reset()

    def catch_stop_iteration(self) -> contextlib.AbstractContextManager[None]:
        """Context of the pass."""
        return self._source.catch_stop_iteration()

    def __iter__(self) -> Iterator[tuple[int, int, SharedPrediction]]:
        self._faults.at("validation")
        for first, last in self._source.epoch(0, 0, self._steps_per_execution):
            yield first, last, self

    def __next__(self) -> Predicted:
        """The outputs of the next batch; collective.

        Raises:
            StopIteration: there is no further batch.
            TrainingError: the ranks' data differ; on every rank.
        """
        batch = self._source.next()
        if batch is None:
            raise StopIteration
        if self._communicator.initial_size == 1:
            outputs = self._compute(batch, [batch.span])
        elif self._by_rows is None:
            outputs = self._try_out(batch)
        elif self._can_share(batch):
            outputs = self._share(batch)
        else:
            outputs = self._compute(batch, [batch.span])
        self._progress()
        return Predicted(outputs)

    def _can_share(self, batch: GlobalBatch) -> bool:
        lo, hi = batch.span
        enough = hi - lo >= len(self._communicator.pending.expected)
        return bool(self._by_rows and enough and not batch.uneven)

    def _compute(self, batch: GlobalBatch, spans: list[Span]) -> Any:
        return self._predict([self._source.as_data(batch.rows(spans))])

    def _try_out(self, batch: GlobalBatch) -> Any:
        """The outputs of a first batch, computed on every rank; collective."""
        lo, hi = batch.span
        generators = keras_hooks.Generators()
        changing = keras_hooks.changing_variables(self._model)
        before = [variable.numpy() for variable in changing]
        whole = self._compute(batch, [batch.span])
        if hi - lo > 1 and self.num_batches != 1:  # else there is nothing to share
            reason = self._in_graph()
            unused = {id(state) for state in self._idle.states}
            pairs = [p for p in zip(changing, before, strict=True) if id(p[0]) not in unused]
            changed = any(not np.array_equal(now.numpy(), value) for now, value in pairs)
            if changed or generators.moved(eager=self._model.run_eagerly):
                reason = _EFFECT
            if not reason:
                with self._idle.counted(0):
                    reason = self._in_parts(batch, whole)
            self._by_rows = self._communicator.agree(not reason)
            if not self._by_rows:
                reason = reason or "another rank cannot share it"
                self._say(f"every rank predicts all: {reason}")
        return whole

    def _in_graph(self) -> str:
        """Reason for which rows cannot be predicted separately, by the graph; "" if none. Local.

        Keras keeps its predict function until the model is compiled again, and so is the reason.
        """
        model, signature = self._model, self._source.signature
        if model.run_eagerly:
            return ""
        known: dict[str, tuple[str, IdleDraws]] = model.predict_function.found
        form = repr(signature)
        if form not in known:
            idle = IdleDraws()
            known[form] = self._found_in_graph(model, signature, idle), idle
        reason, self._idle = known[form]
        return reason

    def _found_in_graph(self, model: Any, signature: Any, idle: IdleDraws) -> str:
        def predict(batch: Any) -> Any:
            return model.predict_step(self._source.as_data(batch))

        try:
            with (
                unheard(),
                keras_hooks.generators_kept(),
                attempted("predict_step needs its rows"),
                idle.noted(),
            ):
                graph = keras_hooks.graph_of(predict, signature).get_concrete_function()
        except NotShareable as reason:
            return str(reason)
        unused = [state.value for state in idle.states]
        # Results of another run would differ, as of parts.
        if drawing(graph) or writes(graph) or uses(graph, unused):
            return _EFFECT
        mixing = combined_rows(graph)
        return mixing and f"predict_step combines rows of a batch, by {mixing}"

    def _in_parts(self, batch: GlobalBatch, whole: Any) -> str:
        """Reason for which rows of a batch cannot be predicted separately; "" if they can. Local.

        Args:
            whole: the outputs for the whole batch.
        """
        lo, hi = batch.span
        middle = (lo + hi) // 2
        halves = []
        try:
            with unheard(), attempted("predict_step fails on a part of a batch"):
                for part in ((lo, middle), (middle, hi)):
                    halves.append(keras_hooks.flatten(self._compute(batch, [part])))
        except NotShareable as reason:
            return str(reason)
        for outputs in itertools.zip_longest(keras_hooks.flatten(whole), *halves):
            if not _belongs_to_rows(*outputs, rows=hi - lo):
                return "outputs of a batch do not belong to its rows"
        return ""

    def _share(self, batch: GlobalBatch) -> Any:
        communicator = self._communicator
        work = _RowsOfABatch(communicator, batch, lambda span: self._compute(batch, [span]))
        with self._idle.counted(1):
            total = sums.over_rows(communicator, work)
        if len(work.digests(total)) > 1:
            raise TrainingError(f"predict: {self._source.explanation}")
        return work.unpacked(total)


class _RowsOfABatch:
    """Outputs of this rank's rows of one batch, as a :class:`sums.RowWork`.

    They are packed as bytes, each row's in its place, with a digest of the data in this rank's.
    """

    def __init__(
        self, communicator: ft.Communicator, batch: GlobalBatch, compute: Callable[[Span], Any]
    ) -> None:
        self._communicator = communicator
        self._batch = batch
        self._compute = compute
        self._pieces: list[tuple[Span, Any]] = []
        self._slots = 0  # of digests: one for each rank of the operation
        self.have: list[list[Span]] = [[]]

    def assigned_rows(self) -> list[list[Span]]:
        pending, world = self._communicator.pending, self._communicator.world
        return [assigned(self._batch.span, pending.expected, pending.lost, world.rank)]

    def compute_rows(self, missing: list[list[Span]]) -> None:
        self._pieces += [(span, self._compute(span)) for span in missing[0]]

    def forget_rows(self) -> None:
        self._pieces = []

    def packed_rows(self) -> np.ndarray:
        expected = self._communicator.pending.expected
        self._slots = len(expected)
        digests = np.zeros((self._slots, _SLOT), np.uint8)
        digest = (self._batch.fingerprint([self._batch.span]) + 1).to_bytes(_SLOT, "little")
        digests[expected.index(self._communicator.world.rank)] = np.frombuffer(digest, np.uint8)
        leaves = self._blank()
        for (start, end), outputs in self._pieces:
            at = slice(start - self._batch.span[0], end - self._batch.span[0])
            for leaf, output in zip(leaves, keras_hooks.flatten(outputs), strict=True):
                leaf[at] = output.numpy()
        return np.concatenate([*(_bytes(leaf) for leaf in leaves), digests.reshape(-1)])

    def _blank(self) -> list[np.ndarray]:
        """Zeros for the outputs of all rows of the batch."""
        lo, hi = self._batch.span
        first = keras_hooks.flatten(self._pieces[0][1])
        return [np.zeros((hi - lo, *p.shape[1:]), p.dtype.as_numpy_dtype) for p in first]

    def digests(self, total: np.ndarray) -> set[bytes]:
        """Digests of the ranks' data in the summed vector; one element if all agree."""
        slots = total[total.size - self._slots * _SLOT :].reshape(-1, _SLOT)
        return {slot.tobytes() for slot in slots if slot.any()}

    def unpacked(self, total: np.ndarray) -> Any:
        """The outputs of the whole batch, from the sum of all ranks' vectors."""
        result, start = [], 0
        for leaf in self._blank():
            part = total[start : start + leaf.nbytes].view(leaf.dtype).reshape(leaf.shape)
            result.append(keras_hooks.constant(part))
            start += leaf.nbytes
        return keras_hooks.pack_as(self._pieces[0][1], result)


def _belongs_to_rows(whole: Any, first: Any, second: Any, *, rows: int) -> bool:
    """Whether an output of a batch of *rows* rows is that of its halves in their order."""
    if not all(map(keras_hooks.is_tensor, (whole, first, second))):
        return False  # sparse or ragged
    if keras_hooks.is_text(whole) or whole.shape.rank == 0 or whole.shape[0] != rows:
        return False
    if not tuple(first.shape[1:]) == tuple(second.shape[1:]) == tuple(whole.shape[1:]):
        return False
    halves = np.concatenate([first.numpy(), second.numpy()]).astype(float)
    one = whole.numpy().astype(float)
    return len(halves) == rows and bool(np.allclose(one, halves, _CLOSE, _CLOSE, equal_nan=True))


def _bytes(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
