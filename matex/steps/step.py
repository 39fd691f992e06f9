"""A training step as three functions: contribution, exchange, commit.

*contribution* computes what this rank has to share for some samples, and leaves
every variable as it was; *commit* applies the exchanged vector, and is all that
changes anything; *fused* is both around the exchange in one graph, which is what
runs as long as nobody dies. An exchange that fails is an operation that fails,
so TensorFlow itself keeps the commit from running.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from matex import keras_hooks
from matex.errors import NotShareable
from matex.exchange import HostExchange
from matex.exchange.layout import Header, Layout, Segment, segment_of
from matex.steps.embedding_rows import EmbeddingRows
from matex.steps.forward_state import ForwardState
from matex.steps.graph_inspection import drawing, runs_python
from matex.steps.recorder import Recorder
from matex.steps.specialization import SpecializedFunction, concrete
from matex.steps.user_code import attempted

__all__ = ["Batch", "Control", "Step"]

Batch = tuple[Any, ...]
Parts = list[Any]


class Control(NamedTuple):
    """What a contribution is told about its samples, beside the samples."""

    weight: float
    """Local samples / samples of the step."""
    salt: float
    """Place of the first sample in the step."""
    header: Header

    def array(self) -> np.ndarray:
        """float32, shape (2 + header,)."""
        return np.array([self.weight, self.salt, *self.header], np.float32)


class Step:
    """The step of one model, traced for one structure of batches. Local to build.

    The model, its metrics and its optimizer must be built. Signatures have a free
    batch dimension, so a share of another size, after a death, is no retrace.

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
        self.runs_eagerly = bool(model.run_eagerly)
        self._as_data = as_data
        self.scales_rate = scales_rate
        self.sums_gradients = sums_gradients
        self._state = ForwardState(model)
        self._recorder = Recorder(model.optimizer)
        self.most_rows = most_rows if sums_gradients else None
        self.slots = EmbeddingRows(self.most_rows)
        self._log_names: list[str] = []
        self._extra_names: list[str] = []
        self._sources: dict[str, tuple[Any, str | None]] = {}
        self._exchange: HostExchange | None = None
        self.form = as_data(signature)
        self.layout: Layout | None = None
        self.tried = False  # whether all ranks found that batches can be cut
        self.may_vary = not keras_hooks.adds_up(model)  # so that it must be tried whether they can
        self.may_count = not keras_hooks.counts_add_up(model)  # the same of its metrics alone
        self.may_draw = True  # numbers that nobody sees: its code is Python when it runs
        self._signature = (signature, tf.TensorSpec((2 + len(Header._fields),), tf.float32))
        self.contribution: Callable[[Batch, np.ndarray], Parts] = self._contribution
        self.commit: Callable[[Parts], dict[str, Any]] = self._commit
        self.fused: Callable[[Batch, np.ndarray], dict[str, Any]] = self._one_by_one
        self.trace: Callable[[], object] = lambda: None
        if not self.runs_eagerly:
            self._make_graphs()

    def quiet(self) -> tuple[Callable[[Batch, Any], Parts], list[Any]]:
        """``contribution`` without what random layers and batch statistics do, for a trial. Local.

        And the variables that it leaves as they were. Where the model has such layers, its
        step is traced once more.
        """
        model = self._model
        known = [*model.variables, *model.metrics_variables, *model.optimizer.variables]
        variables = [variable.value for variable in known]
        if model.run_eagerly:
            return self._quiet_contribution, variables
        if not keras_hooks.is_noisy(model):
            return self._contributing, variables
        quiet = tf.function(
            self._quiet_contribution, input_signature=self._signature, autograph=False
        )
        return quiet.get_concrete_function(), variables

    def _quiet_contribution(self, batch: Batch, control: Any) -> Parts:
        with keras_hooks.without_noise(self._model):
            return self._contribution(batch, control)

    @property
    def tolerance(self) -> float:
        """How far rounding may take a contribution, relative to it."""
        return 1e-3 if keras_hooks.is_precise(self._model) else 5e-2

    @property
    def exchanged(self) -> Layout | None:
        """What of the layout the ranks exchange."""
        if self.layout is None or self.sums_gradients:
            return self.layout
        return replace(self.layout, gradients=())

    def connect(self, exchange: HostExchange) -> None:
        """Say which collective :attr:`fused` makes; before its first call, and for good."""
        self._exchange = exchange

    def _make_graphs(self) -> None:
        contribution = tf.function(
            self._contribution,
            input_signature=self._signature,
            jit_compile=bool(self._model.jit_compile),
            autograph=False,
        )
        with keras_hooks.generators_kept() as drawn, attempted("train_step cannot be traced"):
            self._contributing = contribution.get_concrete_function()  # the layout is known now
        _refuse_drawing(drawn, drawing(self._contributing))
        self.may_draw = runs_python(self._contributing)
        assert self.layout is not None
        assert self.exchanged is not None
        layouts = [self.exchanged] if self.sums_gradients else [self.layout, self.exchanged]
        parts = [tf.TensorSpec(s, layout.dtype) for layout in layouts for s in layout.shapes]
        commit = concrete(self._commit, (parts,))

        def fused(batch: Batch, control: Any) -> dict[str, Any]:
            assert self._exchange is not None, "connect() comes before the first fused step"
            own = contribution(batch, control)
            if self.sums_gradients:
                return commit(self._exchange.in_graph(own))
            tail = tf.cast(own[-1], self._exchange.layout.dtype)
            return commit([*own, *self._exchange.in_graph([tail])])

        self.contribution = contribution
        self.commit = commit
        traces = SpecializedFunction(fused, *self._signature)
        self.fused, self.trace = traces, traces.trace

    def _one_by_one(self, batch: Batch, control: np.ndarray) -> dict[str, Any]:
        assert self._exchange is not None, "connect() comes before the first fused step"
        own = [part.numpy() for part in self.contribution(batch, control)]
        if self.sums_gradients:
            return self.commit([tf.constant(part) for part in self._exchange(*own)])
        return self.commit([tf.constant(part) for part in (*own, *self._exchange(own[-1]))])

    def _contribution(self, batch: Batch, control: Any) -> Parts:
        """What these samples add to the step."""
        control = tf.convert_to_tensor(control)
        weight, salt = control[0], control[1]
        header = self._with_learning_rate(control[2:])
        state, recorder = self._state, self._recorder
        saved = state.save()
        state.prepare(salt)
        with (
            recorder.recording(weight),
            keras_hooks.mean_losses_only(self._model),
            keras_hooks.batches_weighed(self._model, lambda: weight),
            keras_hooks.results_noted(self._model) as results,
        ):
            logs = self._model.train_step(self._as_data(batch))
        averaged, sums = state.changes(saved, salt)
        extra = self._extra_logs(keras_hooks.flat_logs(logs), results)
        restored = state.restore(saved)
        values, places = self.slots.fill(recorder.gradients, recorder.variables, batch, salt)
        dtype = self._lay_out(values, places, list(extra)).dtype
        weight = tf.cast(weight, dtype)
        gradients = [tf.cast(value, dtype) for value in values]
        if not recorder.scaled:
            gradients = [g * weight for g in gradients]
        if not self.sums_gradients and not keras_hooks.scales_loss(self._model.optimizer):
            header = _with_nonfinite(header, gradients)
        means = [_flat(m, dtype) * weight for m in (*averaged, *extra.values())]
        tail = [*means, *(_flat(s, dtype) for s in (*sums, *places)), tf.cast(header, dtype)]
        # The first fence: the tail, and so the exchange, comes after every side effect.
        with tf.control_dependencies([r.op for r in restored if not tf.executing_eagerly()]):
            return [*gradients, tf.concat(tail, 0)]

    def _commit(self, parts: Parts) -> dict[str, Any]:
        """Apply the exchanged parts; the step's logs."""
        # The second fence: nothing runs before the exchange has succeeded. It must be in here.
        # Around the call it goes once TensorFlow has inlined it, and operations without data
        # from the parts (the optimizer's counter) would run beside the exchange.
        with tf.control_dependencies(parts[-1:]):
            return self._apply(parts)

    def _apply(self, parts: Parts) -> dict[str, Any]:
        layout, model = self.layout, self._model
        assert layout is not None
        *gradients, tail = parts
        if not self.sums_gradients:
            *gradients, own = gradients
            gradients = _mean_of_own(gradients, own, tail)
        *rest, header = tf.split(tail, layout.tail_sizes)
        means, sums = rest[: len(layout.means)], rest[len(layout.means) :]
        told = Header(*tf.unstack(header))
        keras_hooks.set_learning_rate(model.optimizer, told.learning_rate)
        factor = told.rate_factor if self.scales_rate else None
        with keras_hooks.updating(), keras_hooks.rate_times(model.optimizer, factor):
            whole = [tf.cast(g, s.dtype) for g, s in zip(gradients, layout.gradients, strict=True)]
            counted = len(self._state.segments()[1])
            self._recorder.apply(self.slots.empty(whole, sums[counted:]))
        extra = [means.pop() for _ in self._extra_names][::-1]
        self._state.add(means, sums[:counted])
        logs = {name: keras_hooks.Results.now(source) for name, source in self._sources.items()}
        logs.update((n, tf.reshape(e, ())) for n, e in zip(self._extra_names, extra, strict=True))
        return {name: logs[name] for name in self._log_names}

    def _with_learning_rate(self, header: Any) -> Any:
        """The leader says 1 for its learning rate, the others 0: put the number in its place."""
        rate = keras_hooks.learning_rate_variable(self._model.optimizer)
        if rate is None:
            return header
        is_rate = [name == "learning_rate" for name in Header._fields]
        return header * tf.where(is_rate, tf.cast(rate, tf.float32), 1.0)

    def _extra_logs(self, logs: dict[str, Any], results: keras_hooks.Results) -> dict[str, Any]:
        """Scalars that a custom train step returns beside results: averaged like the loss."""
        sources = {name: results.source_of(value) for name, value in logs.items()}
        self._log_names = list(logs)
        self._sources = {name: source for name, source in sources.items() if source is not None}
        extra = {name: value for name, value in logs.items() if name not in self._sources}
        self._extra_names = list(extra)
        return extra

    def _lay_out(self, gradients: Parts, places: Parts, extra: list[str]) -> Layout:
        means, sums = self._state.segments()
        named = zip(gradients, self._recorder.names, strict=True)
        self.layout = Layout(
            gradients=tuple(segment_of("gradient of", gradient, name) for gradient, name in named),
            means=(*means, *(Segment(f"value of {name}", (), "float32") for name in extra)),
            sums=(*sums, *(Segment("places", (int(p.shape[0]),), "float32") for p in places)),
        )
        return self.layout


def _refuse_drawing(generators: list[str], operation: str) -> None:
    """Raise where a trace drew from *generators* of Python's, or has the *operation* in it.

    Raises:
        NotShareable: ranks would draw for their rows what one process draws for the batch.
    """
    drawn = [f"from the generator of {name}" for name in generators]
    drawn += [f"by {operation}"] if operation else []
    if drawn:
        raise NotShareable(
            f"train_step draws random numbers without a SeedGenerator, {' and '.join(drawn)}"
        )


def _mean_of_own(gradients: Parts, own: Any, total: Any) -> Parts:
    """Gradients weighted by own samples / samples of the step, weighted by 1."""
    samples = Header._fields.index("samples") - len(Header._fields)
    scale = tf.math.divide_no_nan(tf.cast(total[samples], own.dtype), own[samples])
    return [gradient * tf.cast(scale, gradient.dtype) for gradient in gradients]


def _with_nonfinite(header: Any, gradients: Parts) -> Any:
    """The exchange sees the header only: tell it whether all gradients are finite."""
    finite = [tf.reduce_all(tf.math.is_finite(gradient)) for gradient in gradients]
    is_flag = [name == "nonfinite" for name in Header._fields]
    return header + tf.where(tf.reduce_all(finite) | tf.logical_not(is_flag), 0.0, 1.0)


def _flat(tensor: Any, dtype: Any) -> Any:
    return tf.reshape(tf.cast(tensor, dtype), [-1])
