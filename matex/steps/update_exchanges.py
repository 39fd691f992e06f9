"""Exchanges in the middle of a step's graph: gradients for updates, and moments."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any

import numpy as np
import tensorflow as tf

from matex.errors import NotShareable
from matex.exchange import GraphExchange, Header, Layout
from matex.exchange.buffers import owned
from matex.keras_hooks.functions import own_counter

__all__ = ["UpdateExchanges"]

Parts = list[np.ndarray]


class UpdateExchanges:
    """Sums gradients and moments over the ranks, called by the graph in order. Local.

    ``layouts`` are those of the exchanges in the graph, ``last`` is that of the one after it.
    ``made`` are the exchanges in the graph. ``used`` are those that the running attempt has
    reached, and ``failed`` is the one that failed, which may be the one after the graph.
    """

    def __init__(self) -> None:
        # A variable that counts exchanges: TensorFlow keeps the order of operations on one
        # variable, and ranks that made two exchanges in different orders would deadlock.
        self._turn = own_counter("exchanges")
        self.layouts: list[Layout] = []
        self.last: Layout | None = None
        self._traced = 0
        self._is_same = False
        self.made: list[GraphExchange] = []
        self._sends_nothing = False
        self.used: list[GraphExchange] = []
        self.failed: GraphExchange | None = None
        self._given: dict[int, Parts] | None = None
        self._noted: dict[int, Parts] = {}

    def are_among(self, numbers: Container[int]) -> bool:
        """Whether all exchanges that the running step has used have one of *numbers*."""
        return all(self.made.index(exchange) in numbers for exchange in self.used)

    @property
    def next_number(self) -> int:
        """Number of the next exchange of the graph that is being traced."""
        return self._traced

    def forget(self) -> None:
        """Forget the exchanges, before a trace that may have others."""
        self.made, self.last = [], None

    def begin_trace(self, rows: int | None) -> None:
        """Count exchanges from the first, and forget the layouts of the trace before.

        Args:
            rows: number of rows that the graph is for, or None for any number. A graph for a known
                number must have the layouts of the trace before, if there was one.
        """
        self._traced = 0
        self._is_same = rows is not None and self.last is not None
        if not self._is_same:
            self.layouts = []

    def end_trace(self, last: Layout) -> Layout:
        """Note the layout of the *last* exchange, which follows the graph, and return it.

        Raises:
            NotShareable: the trace had to be the same as the one before, and is not.
        """
        if self._is_same and (self._traced, self.last) != (len(self.layouts), last):
            raise NotShareable("the step is another one for a known number of rows")
        self.last = last
        return last

    def connect(self, make: Callable[[Layout], GraphExchange]) -> None:
        """Create the exchanges, once."""
        if not self.made:
            self.made = [make(layout) for layout in self.layouts]

    def begin_attempt(
        self,
        last: GraphExchange,
        *,
        samples: int,
        fingerprint: int,
        sends_nothing: bool,
        again: bool,
    ) -> None:
        """Start an attempt at the step. Local.

        Args:
            last: exchange after the graph.
            samples: number of samples that each exchange is to sum.
            fingerprint: their fingerprint.
            sends_nothing: whether this rank has no row of the step: values computed from a borrowed
                row are not sent.
            again: whether the step was attempted before, and what it had changed is put back.
        """
        self.used, self.failed = [], None
        for exchange in (*self.made, last):
            exchange.begin(samples=samples, fingerprint=fingerprint, again=again)
        self._sends_nothing = sends_nothing

    def finish_attempt(self, last: GraphExchange, auxiliary: np.ndarray) -> None:
        """Make the exchange after the graph, of *auxiliary*; collective."""
        self._summed(last, [auxiliary])

    def in_graph(self, layout: Layout, parts: list[Any]) -> list[Any]:
        """Add the next exchange to the graph being traced; return the sums of *parts*. Local.

        Args:
            layout: layout of the exchange.
            parts: tensors in the order of *layout*.

        Raises:
            NotShareable: the layout had to be that of the trace before, and is not.
        """
        number = self._traced
        self._traced += 1
        if not self._is_same:
            self.layouts.append(layout)
        elif self.layouts[number : number + 1] != [layout]:
            raise NotShareable("an update is another one for a known number of rows")

        def exchange(*values: np.ndarray) -> Parts:
            return self._exchange(number, list(values))

        before = self._turn.assign_add(1, read_value=False)
        with tf.control_dependencies([before]):
            sums: list[Any] = tf.numpy_function(exchange, parts, [layout.dtype] * len(parts))
        for part, shape in zip(sums, layout.shapes, strict=True):
            part.set_shape(shape)
        with tf.control_dependencies(sums):
            self._turn.assign_add(0, read_value=False)
        return sums

    def trial(
        self, run: Callable[[], Any], given: dict[int, Parts] | None = None
    ) -> tuple[Any, dict[int, Parts]]:
        """Run the graph without any communication; local.

        Args:
            run: function that runs the graph.
            given: sums to return from the exchanges, by number; this rank's own parts by default.

        Returns:
            Result of *run*, and the parts of this rank by number of the exchange.
        """
        self._given, self._noted = given or {}, {}
        try:
            return run(), self._noted
        finally:
            self._given = None

    def _exchange(self, number: int, parts: Parts) -> Parts:
        if self._given is not None:
            self._noted[number] = [np.array(part) for part in parts]
            return self._given.get(number, self._noted[number])
        exchange = self.made[number]
        self.used.append(exchange)
        return owned(self._summed(exchange, parts))

    def _summed(self, exchange: GraphExchange, parts: Parts) -> Parts:
        if self._sends_nothing:
            header = parts[-1][-len(Header._fields) :]
            parts = [np.zeros_like(part) for part in parts]
            parts[-1][-len(header) :] = header
        self.failed = exchange
        sums = exchange(*parts)
        self.failed = None
        return sums
