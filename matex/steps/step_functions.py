"""The functions of a step, run by Python in sequence or as graphs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from matex import keras_hooks
from matex.exchange import GraphExchange
from matex.keras_hooks.rows import known_rows
from matex.steps.graphs.graph_inspection import (
    has_loops,
    refuse_drawing,
    refuse_summaries,
    runs_python,
)
from matex.steps.graphs.specialization import SpecializedFunction, concrete
from matex.steps.graphs.subgraph import function_of
from matex.steps.script_code.dry_run import DryRun
from matex.steps.script_code.user_code import attempted
from matex.steps.step_computation import Batch, Parts, StepComputation

__all__ = ["EagerFunctions", "GraphFunctions", "StepFunctions"]

Logs = dict[str, Any]

_UNCONNECTED = "connect() comes before the first fused step"


class StepFunctions(Protocol):
    """Functions of :class:`matex.steps.step.Step`, which describes each of them."""

    may_draw: bool
    """Whether the step may draw random numbers undetected, because it runs as Python."""

    denominators: Callable[[Batch], np.ndarray] | None
    """Function that returns divisors of the losses of rows; None if they are numbers of rows."""

    def connect(self, exchange: GraphExchange) -> None:
        """Set *exchange* as the one that :meth:`fused` makes; once, before its first call."""

    def contribution(self, batch: Batch, control: Any) -> Parts:
        """Compute the parts that the samples of *batch* add to the step; local, changes nothing."""

    def contribution_of(self, rows: int) -> Callable[[Batch, Any], Parts]:
        """:meth:`contribution` for exactly *rows* rows; its graph is traced by the first call."""

    def commit(self, parts: Parts) -> Logs:
        """Apply the exchanged values to the model; local."""

    def fused(self, batch: Batch, control: np.ndarray) -> Logs:
        """Make the whole step; collective."""

    def trace(self) -> None:
        """Trace the graph of :meth:`fused` beforehand."""

    def traced_contribution(self) -> Callable[[Batch, Any], Parts]:
        """``contribution`` as a function that can be inspected, for the check."""


class EagerFunctions:
    """Runs the functions one by one, for a model compiled with ``run_eagerly``.

    The contribution is the script's Python, which may count its calls: the first one of each step
    counts, and those of a recovery leave nothing changed.
    """

    def __init__(self, computation: StepComputation, dry_run: DryRun) -> None:
        self._computation = computation
        self._dry_run = dry_run
        self._has_counted = False
        self._exchange: GraphExchange | None = None
        self.may_draw = True
        self.denominators: Callable[[Batch], np.ndarray] | None = None

    def connect(self, exchange: GraphExchange) -> None:
        self._exchange = exchange

    def contribution(self, batch: Batch, control: Any) -> Parts:
        again = self._has_counted
        with self._dry_run.run() if again else self._dry_run.undone_on_error():
            parts = self._computation.contribution(batch, control)
        self._has_counted = True
        return parts

    def contribution_of(self, rows: int) -> Callable[[Batch, Any], Parts]:
        return self.contribution

    def commit(self, parts: Parts) -> Logs:
        self._has_counted = False
        return self._computation.commit(parts)

    def fused(self, batch: Batch, control: np.ndarray) -> Logs:
        assert self._exchange is not None, _UNCONNECTED
        own = [part.numpy() for part in self.contribution(batch, control)]
        if self._computation.sums_gradients:
            return self.commit([tf.constant(part) for part in self._exchange(*own)])
        return self.commit([tf.constant(part) for part in (*own, *self._exchange(own[-1]))])

    def trace(self) -> None:
        """Do nothing: there is no graph."""

    def traced_contribution(self) -> Callable[[Batch, Any], Parts]:
        return self.contribution


class GraphFunctions:
    """Runs graphs: one of the contribution, one of the commit, and one of both with the exchange.

    Args:
        computation: contribution and commit; their layout is known after the construction.
        signature: signatures of batch and control, with a free batch dimension.
        jit_compile: whether XLA compiles the contribution.

    Raises:
        NotShareable: ``train_step`` cannot be traced, or draws random numbers that differ between
            ranks.
    """

    def __init__(
        self, computation: StepComputation, signature: tuple[Any, Any], *, jit_compile: bool
    ) -> None:
        self._computation = computation
        self._signature = signature
        self._exchange: GraphExchange | None = None
        self._of_size: dict[int, Callable[..., Parts]] = {}
        started = time.perf_counter()
        self._contribution = tf.function(
            computation.contribution,
            input_signature=signature,
            jit_compile=jit_compile,
            autograph=False,
        )
        drawn = keras_hooks.with_global_generator(self._trace_contribution)
        traced_s = time.perf_counter() - started
        self._is_traced_by_size = has_loops(self._traced) and not jit_compile
        refuse_drawing(self._traced, drawn, name="train_step")
        refuse_summaries(self._traced, name="train_step")
        self.may_draw = runs_python(self._traced)
        self.denominators = self._denominators(signature[0])
        assert computation.layout is not None
        assert computation.exchanged is not None
        layouts = (
            [computation.exchanged]
            if computation.sums_gradients
            else [computation.layout, computation.exchanged]
        )
        specs = [tf.TensorSpec(s, layout.dtype) for layout in layouts for s in layout.shapes]
        self._commit = concrete(computation.commit, (specs,))
        self._fused = SpecializedFunction(self._around_exchange, *signature, traced_s=traced_s)

    def _trace_contribution(self) -> list[str]:
        """Trace, which determines the layout; return the random generators that were drawn from."""
        with keras_hooks.generators_kept() as drawn, attempted("train_step cannot be traced"):
            self._traced = self._contribution.get_concrete_function()
        return drawn

    def _denominators(self, batch: Any) -> Callable[[Batch], np.ndarray] | None:
        wanted = self._computation.forward.denominators
        if not wanted:
            return None
        return function_of(self._traced, wanted, batch, purpose="the masks or weights of a loss")

    def _around_exchange(self, batch: Batch, control: Any) -> Logs:
        assert self._exchange is not None, _UNCONNECTED
        known = self._is_traced_by_size and known_rows(batch) is not None
        own = (self._computation.contribution if known else self._contribution)(batch, control)
        if self._computation.sums_gradients:
            return self.commit(self._exchange.in_graph(own))
        auxiliary = tf.cast(own[-1], self._exchange.layout.dtype)
        return self.commit([*own, *self._exchange.in_graph([auxiliary])])

    def connect(self, exchange: GraphExchange) -> None:
        self._exchange = exchange

    def contribution(self, batch: Batch, control: Any) -> Parts:
        parts: Parts = self._contribution(batch, control)
        return parts

    def contribution_of(self, rows: int) -> Callable[[Batch, Any], Parts]:
        if rows not in self._of_size:
            signature, control = self._signature
            sized = tf.nest.map_structure(lambda s: keras_hooks.with_rows(s, rows), signature)
            function = tf.function(
                self.contribution, input_signature=(sized, control), autograph=False
            )
            self._of_size[rows] = function.get_concrete_function()
        graph = self._of_size[rows]
        return lambda batch, control: graph(batch, tf.constant(control))

    def commit(self, parts: Parts) -> Logs:
        logs: Logs = self._commit(parts)
        return logs

    def fused(self, batch: Batch, control: np.ndarray) -> Logs:
        logs: Logs = self._fused(batch, control)
        return logs

    def trace(self) -> None:
        self._fused.trace()

    def traced_contribution(self) -> Callable[[Batch, Any], Parts]:
        traced: Callable[[Batch, Any], Parts] = self._traced
        return traced
