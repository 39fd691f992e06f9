"""Sums of the contributions of a rank's virtual workers, by subtree."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from matex import keras_hooks
from matex.exchange import Layout
from matex.partition.spans import Span, size, split
from matex.partition.worker_tree import Node, folded, leaves_of
from matex.steps.own_rows import OwnRows
from matex.steps.step import Step

__all__ = ["Parts", "WorkerSums"]

Parts = list[Any]


class WorkerSums:
    """Computes contributions, and sums them within the whole subtrees of this rank. Local.

    ``by_node`` has the sums of the running step, in the order of their subtrees.

    Args:
        rows: rows of this rank, in whole virtual workers.
        step: step of the model.
        workers: number of virtual workers.
        most_rows: number of rows of a full batch, if known.
    """

    def __init__(self, rows: OwnRows, step: Step, workers: int, most_rows: int | None) -> None:
        self._rows = rows
        self._step = step
        #: Sizes of parts with a graph of their own: those of full batches, on any rank.
        self._usual = {size([part]) for part in split((0, most_rows or 0), workers)}
        self.by_node: dict[Node, Parts] = {}

    def forget(self) -> None:
        """Drop all sums; the update can reuse their memory."""
        self.by_node = {}

    def complete(self, parts: Sequence[Span], nodes: Sequence[Node]) -> None:
        """Make ``by_node`` the sums of exactly the subtrees *nodes*, computing missing ones.

        Args:
            parts: samples of each virtual worker of the step, in their order.
            nodes: largest subtrees of this rank, in the order of their leaves.
        """
        count = len(parts)
        wanted = {worker for node in nodes for worker in leaves_of(node, count)}
        have = {node: set(leaves_of(node, count)) for node in self.by_node}
        found = {node: sums for node, sums in self.by_node.items() if have[node] <= wanted}
        missing = sorted(wanted.difference(*(have[node] for node in found)))
        spans = [parts[number] for number in missing]
        for number, span, own in zip(missing, spans, self._pieces(spans), strict=True):
            control = self._rows.control([span], speaks=number == missing[0])
            contribution: Parts = self._graph_for(size([span]))(own, control)
            found = folded({**found, (0, number): contribution}, count, _added)
        self.by_node = {node: found[node] for node in nodes}

    def _graph_for(self, rows: int) -> Callable[[Any, Any], Parts]:
        """Graph that computes parts of *rows* rows, the same on all ranks."""
        step = self._step
        return step.contribution_of(rows) if rows in self._usual else step.contribution

    def _pieces(self, spans: list[Span]) -> list[Any]:
        """Rows of each of *spans*, read at once."""
        if not spans:
            return []
        rows = self._rows.rows(spans)
        if len(spans) == 1:
            return [rows]
        sizes = [size([span]) for span in spans]
        pieces = [keras_hooks.split_rows(tensor, sizes) for tensor in keras_hooks.flatten(rows)]
        return [keras_hooks.pack_as(rows, list(piece)) for piece in zip(*pieces, strict=True)]

    def vectors(self, layout: Layout) -> dict[Node, np.ndarray]:
        """Sums as vectors of *layout*."""
        return {
            node: layout.packed([np.asarray(part) for part in parts])
            for node, parts in self.by_node.items()
        }


def _added(lower: Parts, upper: Parts) -> Parts:
    return list(map(operator.add, lower, upper))
