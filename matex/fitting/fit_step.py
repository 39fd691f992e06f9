"""Compiled step of a fit: that of the model's last fit if it still fits, else a new one."""

from __future__ import annotations

from typing import Any

from matex.errors import Unsupported
from matex.fitting.fit_plan import FitPlan
from matex.partition.slot_capacity import SlotCapacity
from matex.run.context import RunContext
from matex.sources.interface import Source
from matex.steps.model_step import ModelStep
from matex.steps.traced_step import CompiledStep, trace_step

__all__ = ["compiled_step", "keep_step", "say_dense"]

# Smaller gradients are not worth a line.
_LARGE_BYTES = 4 << 20


def compiled_step(run: RunContext, model: Any, source: Source, plan: FitPlan) -> CompiledStep:
    """Compile the step of *model*, or reuse that of its last fit; local.

    Raises:
        NotShareable: it cannot be split at its optimizer.
        Unsupported: the model has another optimizer than the step that Keras would reuse.
    """
    options = plan.step_options(source)
    compiled = _compiled_before(run, model, source, options["capacity"])
    compiled = compiled or CompiledStep(trace_step(model, source, **options))
    say_dense(run, compiled.step)
    return compiled


def keep_step(run: RunContext, model: Any, compiled: CompiledStep) -> None:
    """Keep the step of *model* at the end of a fit, for the next one; local, on all ranks."""
    if model.train_function is not None:
        model.train_function.compiled = compiled
        model.train_function.optimizer = model.optimizer
        model.train_function.processes = len(run.communicator.hosts)


def _compiled_before(
    run: RunContext, model: Any, source: Source, capacity: SlotCapacity | None
) -> CompiledStep | None:
    """Step of the last fit, if Keras too would reuse its own and all ranks have it.

    Keras drops a model's train function when the model is compiled again. A process that became a
    rank after that fit has neither the step nor the results of its checks.

    Raises:
        Unsupported: Keras would reuse a step with an optimizer that the model has no more.
    """
    compiled: CompiledStep | None = getattr(model.train_function, "compiled", None)
    if compiled is not None and model.train_function.optimizer is not model.optimizer:
        if model.run_eagerly:
            return None
        raise Unsupported(
            "an optimizer set after a fit wants compile(), or make_train_function(force=True): "
            "plain Keras goes on with the former one, whose step it has traced. Received: "
            f"{type(model.optimizer).__name__} as model.optimizer"
        )
    if compiled is None or model.train_function.processes != len(run.communicator.hosts):
        return None
    if compiled.step.batch_spec != source.as_data(source.signature):
        return None
    if not compiled.step.accepts(capacity):
        return None
    return compiled


def say_dense(run: RunContext, step: ModelStep) -> None:
    """Print the names of gradients that are far larger than the rows that were looked up."""
    large = {name: n for name, n in step.summed_embeddings.items() if n >= _LARGE_BYTES}
    if large and run.communicator.initial_size > 1:
        names = ", ".join(f"{name} {n / 1e6:.0f} MB" for name, n in large.items())
        run.terminal.say_once(
            f"gradients of embeddings travel as whole tables in each step: {names}; as the "
            "rows that were looked up where batches have one size, look up as many places "
            "for each of their rows, and these take less"
        )
