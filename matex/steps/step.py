"""A training step as three functions: contribution, exchange, commit.

*contribution* computes what this rank has to share for some samples, and leaves
every variable as it was; *commit* applies the exchanged vector, and is all that
changes anything; *fused* is both around the exchange in one graph, which is what
runs as long as nobody dies. An exchange that fails is an operation that fails,
so TensorFlow itself keeps the commit from running.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from matex import keras_hooks
from matex.exchange import HostExchange
from matex.exchange.layout import Header, Layout
from matex.steps.control import Control, control_spec
from matex.steps.embedding_rows import EmbeddingRows
from matex.steps.step_functions import EagerFunctions, GraphFunctions, StepFunctions
from matex.steps.step_parts import Batch, Parts, StepParts

__all__ = ["Batch", "Step"]


class Step:
    """The step of one model, traced for one structure of batches. Local to build.

    The model, its metrics and its optimizer must be built. Signatures have a free
    batch dimension, so a batch of another size, after a death, is no retrace.

    ``contribution(batch, control) -> parts`` is local and changes nothing;
    ``commit(parts) -> logs`` is local, and changes the model by what was exchanged,
    which is the sum of all parts. Where gradients are not summed it is that of the
    last part alone, and comes behind this rank's own parts in *parts*.
    ``fused(batch, control) -> logs`` is collective; ``trace()``, after :meth:`connect`, makes its
    graph beforehand. Parts are those of :class:`Layout`.

    Args:
        signature: ``(x[, y[, sample_weight]])``, structures of ``tf.TensorSpec``.
        sums_gradients: whether gradients are exchanged; else an update is made by the mean
            gradient over this rank's own rows, by 0 where it has none.
        scales_rate: whether updates are made at the header's ``rate_factor`` times the rate.
        most_rows: rows of the largest global batch, where gradients of embeddings may be slices.
        as_data: makes of a batch of that signature what ``train_step`` gets.

    Raises:
        NotShareable: the train step cannot be cut at its optimizer, fails on batches of any size,
            or draws numbers that ranks would not draw alike.
    """

    def __init__(
        self,
        model: Any,
        signature: Batch,
        *,
        sums_gradients: bool = True,
        scales_rate: bool = False,
        most_rows: int | None = None,
        as_data: Callable[[Batch], Any] = keras_hooks.as_data,
    ) -> None:
        self._model = model
        self._parts = StepParts(
            model,
            as_data,
            sums_gradients=sums_gradients,
            scales_rate=scales_rate,
            most_rows=most_rows,
        )
        self.runs_eagerly = bool(model.run_eagerly)
        self.batch_spec = as_data(signature)
        self.tried: set[int] = set()  # of several updates: here there is one
        self.separability_checked = False  # whether all ranks found that batches can be cut
        self.may_vary = not keras_hooks.adds_up(model)  # so that it must be tried whether they can
        self.may_count = not keras_hooks.counts_add_up(model)  # the same of its metrics alone
        self._signature = (signature, control_spec())
        self._chance = keras_hooks.Chance(model)
        self._functions: StepFunctions
        if self.runs_eagerly:
            self._functions = EagerFunctions(self._parts)
        else:
            jit_compile = bool(model.jit_compile)
            self._functions = self._chance.noted_in(
                lambda: GraphFunctions(self._parts, self._signature, jit_compile=jit_compile)
            )

    # What it is made of.

    @property
    def sums_gradients(self) -> bool:
        """Whether gradients are among what is exchanged."""
        return self._parts.sums_gradients

    @property
    def scales_rate(self) -> bool:
        """Whether updates are made at the header's ``rate_factor`` times the rate."""
        return self._parts.scales_rate

    @property
    def most_rows(self) -> int | None:
        """The rows of the largest global batch, where gradients of embeddings may be slices."""
        return self._parts.most_rows

    @property
    def options(self) -> dict[str, Any]:
        """The options that it was made with, to make it again."""
        return {
            "sums_gradients": self.sums_gradients,
            "scales_rate": self.scales_rate,
            "most_rows": self.most_rows,
        }

    @property
    def embedding_rows(self) -> EmbeddingRows:
        """The gradients of embeddings that travel as slices, and those that do not."""
        return self._parts.embedding_rows

    def takes(self, most_rows: int | None) -> bool:
        """Whether it can go on with global batches of so many rows at most."""
        return self.embedding_rows.take(most_rows)

    @property
    def summed_embeddings(self) -> dict[str, int]:
        """The bytes of gradients of embeddings that travel as whole tables, by name."""
        return self.embedding_rows.summed

    @property
    def layout(self) -> Layout | None:
        """The layout of the contribution; with run_eagerly, known after the first one."""
        return self._parts.layout

    @property
    def exchanged(self) -> Layout | None:
        """The part of the layout that the ranks exchange."""
        return self._parts.exchanged

    @property
    def shifted(self) -> set[str]:
        """The names of random functions whose rows are drawn otherwise than in one process.

        With run_eagerly, they are known after the first contribution.
        """
        return self._parts.shifted

    @property
    def may_draw(self) -> bool:
        """Whether it may draw numbers that nobody sees, because its code is Python as it runs."""
        return self._functions.may_draw

    @property
    def tolerance(self) -> float:
        """Largest deviation of a contribution by rounding, relative to it."""
        return 1e-3 if keras_hooks.is_precise(self._model) else 5e-2

    # Its functions.

    def connect(self, exchange: HostExchange) -> None:
        """Say which collective :meth:`fused` makes; before its first call, and for good."""
        self._functions.connect(exchange)

    def contribution(self, batch: Batch, control: Any) -> Parts:
        """Compute what the samples of *batch* add to the step; local, changes nothing."""
        return self._functions.contribution(batch, control)

    def contribution_of(self, rows: int) -> Callable[[Batch, Any], Parts]:
        """:meth:`contribution` for so many *rows* alone; a quicker graph, made by the first call.

        It may add numbers up in another order.
        """
        return self._functions.contribution_of(rows)

    def warm_up(self, rows: Batch) -> None:
        """Compute the contribution of one row in vain, so that its graph is ready. Local."""
        control = Control(1.0, 0.0, 1.0, Header(), [(0, 1)], self.denominators(rows))
        self.contribution(rows, control.array())

    @property
    def divides_by_rows(self) -> bool:
        """Whether no loss is divided by anything but numbers of rows."""
        return self._functions.denominators is None

    def denominators(self, rows: Batch) -> Sequence[float]:
        """Divisors of the losses of *rows* that are not their number, in order; local."""
        compute = self._functions.denominators
        return () if compute is None else compute(rows).tolist()

    def commit(self, parts: Parts) -> dict[str, Any]:
        """Change the model by what was exchanged; local. The step's logs."""
        return self._functions.commit(parts)

    def fused(self, batch: Batch, control: np.ndarray) -> dict[str, Any]:
        """Make the whole step; collective. Its logs."""
        return self._functions.fused(batch, control)

    def trace(self) -> None:
        """Make the graph of :meth:`fused` beforehand; after :meth:`connect`. Local."""
        self._functions.trace()

    def quiet(self) -> tuple[Callable[[Batch, Any], Parts], list[Any]]:
        """``contribution`` without what random layers and batch statistics do, for a trial. Local.

        And the variables that it leaves as they were. Where the step has chance in it that differs
        in parts, it is traced once more.
        """
        model = self._model
        known = [*model.variables, *keras_hooks.metric_variables(model), *model.optimizer.variables]
        variables = [variable.value for variable in known]
        if model.run_eagerly:
            return self._quiet_contribution, variables
        if not self._chance.differs_in_parts:
            return self._functions.traced_contribution(), variables
        quiet = keras_hooks.graph_of(self._quiet_contribution, *self._signature)
        return quiet.get_concrete_function(), variables

    @property
    def counted(self) -> list[Any]:
        """The states of metrics, in the order of the layout's sums."""
        return list(keras_hooks.metric_variables(self._model))

    def quiet_going_on(self) -> Callable[[Batch, Any], Parts]:
        """:meth:`quiet`'s, in which metrics go on from what they hold, traced anew. Local."""

        def going_on(batch: Batch, control: Any) -> Parts:
            with self._parts.metrics_going_on():
                return self._quiet_contribution(batch, control)

        if self.runs_eagerly:
            return going_on
        traced: Callable[[Batch, Any], Parts] = keras_hooks.graph_of(going_on, *self._signature)
        return traced

    def _quiet_contribution(self, batch: Batch, control: Any) -> Parts:
        with self._chance.left_out():
            return self._parts.contribution(batch, control)
