"""Start of a fit with shared batches: data, model, step, listeners, iterator."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple

import checkpoints
from matex import keras_hooks
from matex.apoptosis import rebuild
from matex.checkpointing import model_state
from matex.data import Batches
from matex.fitting.agreement import check_alike
from matex.fitting.balancing import Balancer
from matex.fitting.checkpoint_listener import CheckpointListener
from matex.fitting.epoch_iterator import EpochIterator
from matex.fitting.fit_batches import FitBatches
from matex.fitting.fit_checkpoint import FitCheckpoint, first_epoch, stops_inside
from matex.fitting.fit_plan import FitPlan
from matex.fitting.fit_record import FitRecord
from matex.fitting.fit_source import resume, row_source, stream_source
from matex.fitting.fit_step import compiled_step, say_dense
from matex.fitting.listeners import Cursor, FitListener
from matex.fitting.resizing import Resizing
from matex.fitting.retracing import Retracing
from matex.fitting.spares import FitSpares
from matex.fitting.trained_models import TrainedModels
from matex.fitting.update_check import UpdateCheck
from matex.fitting.whole_batches import WholeBatches
from matex.partition.order import OrderSeed
from matex.records.equality import in_words
from matex.run.context import RunContext
from matex.sources.data_agreement import sketch_of
from matex.sources.interface import Source
from matex.sources.select import BATCH_SIZE, MakeFeed
from matex.steps.building import build
from matex.steps.end_of_data import EndOfData
from matex.steps.engine import StepEngine
from matex.steps.traced_step import AnyStep
from matex.steps.user_code import attempted

__all__ = ["FitParts", "SharedFit", "begin_shared", "cut_as_in"]


@dataclass(frozen=True, kw_only=True)
class FitParts:
    """Parts of one fit, before its data are known.

    ``number`` is the number of the fit in the script, from 0; ``order_seed`` are the seeds of the
    order of its samples, ``arguments`` all arguments of ``model.fit``, by name.
    """

    run: RunContext
    model: Any
    number: int
    order_seed: OrderSeed
    arguments: dict[str, Any]
    plan: FitPlan
    checkpoint: FitCheckpoint
    whole: WholeBatches
    updates: UpdateCheck
    trained: TrainedModels


class SharedFit(NamedTuple):
    """Further parts of a fit with shared batches."""

    iterator: EpochIterator
    spares: FitSpares
    listeners: list[FitListener]
    """Listeners, in the order in which they are called after a step."""


def begin_shared(
    fit: FitParts, make_feed: MakeFeed, given: dict[str, Any], batches: Batches | None
) -> SharedFit:
    """Make the iterator of a fit whose batches are shared; collective.

    Args:
        fit: parts of the fit.
        make_feed: function that makes Keras's own iterator.
        given: arguments from which Keras would construct it.
        batches: rows of the data; None for a stream.

    Raises:
        NotShareable: batches cannot be divided; on every rank.
        InputError, Unsupported: on every rank.
    """
    run, model, plan = fit.run, fit.model, fit.plan
    keras_hooks.check_reductions(model)
    source = _source(fit, make_feed, given, batches)
    with attempted("the model cannot be built from its data before training"):
        build(model, source.built_on, for_fit=True)
    fit.checkpoint.know_data(sketch_of(batches))
    fit.checkpoint.know_batches(FitBatches(source.most_rows, source.order))
    plan.changed = fit.checkpoint.batches.changed
    saved = fit.checkpoint.saved
    if saved is not None:
        cut_as_in(saved, model)
    plan.resolve(source, seed=fit.checkpoint.seed.own, epochs=fit.arguments["epochs"])
    compiled = compiled_step(run, model, source, plan)
    batch_size = given["batch_size"] or BATCH_SIZE
    check_alike(
        run.communicator,
        model,
        source,
        batch_size,
        number=fit.number,
        epochs=fit.arguments["epochs"],
        steps=fit.arguments["steps_per_epoch"],
    )

    def tell_anew(step: AnyStep) -> None:
        say_dense(run, step)
        if (now := plan.differences(source, step)) != but_for:
            _note(fit, source, start, batch_size * plan.batches.multiplier(), now)

    engine = StepEngine(
        run,
        model,
        source,
        compiled,
        strategy=plan.strategy,
        finds_nonfinite=not keras_hooks.looks_for_nan(fit.arguments["callbacks"]),
        made_anew=tell_anew,
    )
    run.calls.settled_by(lambda: _settle(run, engine))
    start = Cursor(fit.arguments["initial_epoch"], 0, 0)
    if saved is not None:
        fit.checkpoint.restore()
        resume(source, saved, run, initial_epoch=start.epoch)
        epoch = first_epoch(saved, fit.arguments["epochs"])
        start = start._replace(epoch=epoch, samples=saved.cursor["samples"])
        keras_hooks.start_at(model, start.epoch)
    model_state.broadcast(run.communicator, model)
    _count(fit, source, start)
    but_for = plan.differences(source, compiled.step)
    fit.whole.would_differ(plan.differences(source), told=but_for)
    _note(fit, source, start, batch_size * plan.batches.multiplier(), but_for)
    spares = FitSpares(
        run,
        model,
        fit.checkpoint,
        plan.replicas,
        fit.trained,
        number=fit.number,
        data=fit.checkpoint.data,
    )
    listeners: list[FitListener] = [  # in the order in which they are called after a step
        fit.updates,
        FitRecord(run, model, plan, source),
        plan.replicas,
        Balancer(run, engine),
        CheckpointListener(run, fit.checkpoint, engine),
        spares,
        Resizing(run),
    ]

    def as_noted() -> AbstractContextManager[None]:
        return engine.compiled.step.python.as_noted()  # of the step as it is by then

    end = EndOfData(model, source, model.train_step, as_noted)
    iterator = EpochIterator(
        engine,
        model,
        source,
        start=start,
        stops=saved is not None and stops_inside(saved),
        rate=plan,
        uncut=fit.whole,
        end=end,
        retracing=Retracing(run.communicator, engine, end),
        updates=fit.updates,
        listeners=listeners,
    )
    return SharedFit(iterator, spares, listeners)


def _source(
    fit: FitParts, make_feed: MakeFeed, given: dict[str, Any], batches: Batches | None
) -> Source:
    epochs = fit.arguments["epochs"]
    if batches is None:
        epochs -= fit.arguments["initial_epoch"]
        at_once = fit.model.steps_per_execution
        return stream_source(
            fit.run, make_feed, given, fit.checkpoint, epochs=epochs, steps_at_once=at_once
        )
    return row_source(
        fit.run,
        batches,
        given,
        fit.checkpoint,
        fit.plan.batches,
        order_seed=fit.order_seed,
        epochs=epochs,
    )


def _settle(run: RunContext, engine: StepEngine) -> None:
    """Set replicas to the one model, after an exception on all ranks; collective."""
    with run.watchdog.working():
        engine.consensus()


def _count(fit: FitParts, source: Source, start: Cursor) -> None:
    """Count the samples to be trained on. Local."""
    run, epochs = fit.run, fit.arguments["epochs"]
    if source.samples is not None:  # a stream's are counted as they arrive
        expected = (epochs - start.epoch) * source.samples - start.samples
        run.ledger.expect_samples(max(0, expected))
    run.ledger.begin_fit(keras_hooks.parameters(fit.model))


def _note(
    fit: FitParts, source: Source, start: Cursor, batch_size: int, but_for: list[str]
) -> None:
    """Write the event of the fit, and print how its numbers compare with plain Keras's. Local."""
    run = fit.run
    if run.virtual_workers:
        run.say_once(f"virtual workers: {run.virtual_workers} share each batch")
    if run.active > 1:
        run.say_once(f"numbers: {in_words(but_for)}")
    if run.communicator.world.awaits_admission:  # it is of the others
        return
    run.events.write(
        "fit",
        fit=fit.number,
        step=run.step,
        samples=source.samples,
        order=source.order,
        batch_size=batch_size,
        parameters=keras_hooks.parameters(fit.model),
        epochs=fit.arguments["epochs"],
        strategy=fit.plan.strategy.name,
        but_for=but_for,
        virtual=run.virtual_workers,
        first_epoch=start.epoch,
        cursor=start.samples,
        world_size=run.size_of(run.communicator.world),
    )


def cut_as_in(saved: checkpoints.Snapshot, model: Any) -> bool:
    """Cut *model* to the widths that it had in *saved*; local.

    Returns:
        True if there was a layer to cut.
    """
    return rebuild.replay(model, model_state.weights_of(model), saved.extra)
