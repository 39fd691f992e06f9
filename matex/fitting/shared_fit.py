"""Start of a fit with shared batches: data, model, step, listeners, iterator."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import ft
from matex import keras_hooks
from matex.apoptosis.cut.saved_widths import cut_as_saved
from matex.checkpointing import model_state
from matex.data import Batches
from matex.fitting.agreement import check_alike
from matex.fitting.announcement import Announcement
from matex.fitting.balancing import Balancer
from matex.fitting.data_end import DataEnd
from matex.fitting.epoch_iterator import EpochIterator
from matex.fitting.epoch_parts import FitStart
from matex.fitting.fit_batches import FitBatches
from matex.fitting.fit_parts import FitParts
from matex.fitting.fit_record import FitRecord
from matex.fitting.fit_source import resume, row_source, stream_source
from matex.fitting.fit_state.checkpoint_listener import CheckpointListener
from matex.fitting.fit_state.saved_cursor import first_epoch, stops_inside
from matex.fitting.fit_step import compiled_step
from matex.fitting.joining.joinable_fit import JoinableFit
from matex.fitting.joining.resizing import Resizing
from matex.fitting.joining.spares import FitSpares
from matex.fitting.listeners import FitListener
from matex.fitting.retracing import Retracing
from matex.fitting.update_check import UpdateCheck
from matex.sources.data_agreement import sketch_of
from matex.sources.interface import Source
from matex.sources.select import BATCH_SIZE, MakeFeed
from matex.steps.building import build
from matex.steps.end_of_data import EndOfData
from matex.steps.engine import StepEngine
from matex.steps.script_code.user_code import attempted
from matex.steps.traced_step import CompiledStep

__all__ = ["SharedFit", "begin_shared"]


class SharedFit(NamedTuple):
    """Further parts of a fit with shared batches."""

    iterator: EpochIterator
    spares: FitSpares
    retracing: Retracing
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
    keras_hooks.check_reductions(fit.model)
    source = _agreed_source(fit, make_feed, given, batches)
    batch_size = given["batch_size"] or BATCH_SIZE
    compiled = _agreed_step(fit, source, batch_size)
    announcement = Announcement(fit, source, batch_size * fit.plan.batches.multiplier())
    engine = _engine(fit, source, compiled, announcement)
    start = _agreed_start(fit, source)
    announcement.make(compiled.step, start)
    joinable = JoinableFit(
        fit.run, fit.model, fit.facts, fit.snapshots, fit.plan.replicas, fit.trained
    )
    spares = FitSpares(fit.run, fit.model, joinable, number=fit.number)
    retracing, ending = _tracers(fit, source, engine)
    listeners = [retracing, announcement, *ending, *_listeners(fit, source, engine, spares)]
    iterator = EpochIterator(
        engine,
        fit.model,
        source,
        start=start,
        rate=fit.plan,
        whole=fit.whole,
        listeners=listeners,
    )
    return SharedFit(iterator, spares, retracing, listeners)


def _agreed_source(
    fit: FitParts, make_feed: MakeFeed, given: dict[str, Any], batches: Batches | None
) -> Source:
    """Source of the batches, with a model and a plan that fit it; collective."""
    source = _source(fit, make_feed, given, batches)
    with attempted("the model cannot be built from its data before training"):
        build(fit.model, source.built_on, for_fit=True)
    _compare_with_saved(fit, source, batches)
    fit.plan.resolve(source, seed=fit.facts.seed.own, epochs=fit.arguments["epochs"])
    fit.facts.strategy = fit.plan.strategy
    return source


def _agreed_step(fit: FitParts, source: Source, batch_size: int) -> CompiledStep:
    """Compiled step, once it is known that all ranks are about to train alike; collective."""
    compiled = compiled_step(fit.run, fit.model, source, fit.plan)
    check_alike(
        fit.run.communicator,
        fit.model,
        source,
        batch_size,
        number=fit.number,
        epochs=fit.arguments["epochs"],
        steps=fit.arguments["steps_per_epoch"],
    )
    return compiled


def _engine(
    fit: FitParts, source: Source, compiled: CompiledStep, announcement: Announcement
) -> StepEngine:
    """Engine of the steps, which also gives all ranks one model after an exception. Local."""
    engine = StepEngine(
        fit.run.steps,
        fit.model,
        source,
        compiled,
        strategy=fit.plan.strategy,
        finds_nonfinite=not keras_hooks.looks_for_nan(fit.arguments["callbacks"]),
        made_anew=announcement.repeat,
    )
    fit.run.calls.equalized_by(lambda: _equalize(fit.run.watchdog, engine))
    return engine


def _agreed_start(fit: FitParts, source: Source) -> FitStart:
    """Position at which the fit begins, with one model on all ranks; collective."""
    start = _restored(fit, source)
    model_state.broadcast(fit.run.communicator, fit.model)
    _count(fit, source, start)
    return start


def _compare_with_saved(fit: FitParts, source: Source, batches: Batches | None) -> None:
    """Tell of data and batches that differ from a checkpoint's, and cut the model as in it."""
    facts, saved = fit.facts, fit.restoration.saved
    facts.know_data(sketch_of(batches))
    facts.know_batches(FitBatches(source.most_rows, source.order))
    fit.differences.changed = facts.batches.changed
    if saved is not None:
        cut_as_saved(fit.model, saved)


def _restored(fit: FitParts, source: Source) -> FitStart:
    """Position at which the fit begins, with model and data as they were there. Local."""
    saved, initial_epoch = fit.restoration.saved, fit.arguments["initial_epoch"]
    if saved is None:
        return FitStart(initial_epoch)
    fit.restoration.restore_model()
    resume(source, saved, fit.run.terminal, initial_epoch=initial_epoch)
    epoch = first_epoch(saved, fit.arguments["epochs"])
    keras_hooks.start_at(fit.model, epoch)
    return FitStart(epoch, saved.cursor["samples"], stops_inside(saved))


def _listeners(
    fit: FitParts, source: Source, engine: StepEngine, spares: FitSpares
) -> list[FitListener]:
    """Listeners, in the order in which they are called after a step."""
    run, plan = fit.run, fit.plan
    return [
        FitRecord(run, fit.model, plan, source),
        plan.replicas,
        Balancer(run, engine),
        CheckpointListener(run, fit.snapshots, fit.restoration, engine),
        spares,
        Resizing(run),
    ]


def _tracers(
    fit: FitParts, source: Source, engine: StepEngine
) -> tuple[Retracing, list[FitListener]]:
    """Listeners that trace the step where plain Keras does, and those that count its updates."""
    model = fit.model

    def as_noted() -> AbstractContextManager[None]:
        return engine.compiled.step.python.as_noted()  # of the step as it is by then

    end = EndOfData(model, source, model.train_step, as_noted)
    updates = UpdateCheck(model, engine, fit.arguments["callbacks"])
    return Retracing(fit.run.communicator, engine, end), [updates, DataEnd(end, updates)]


def _source(
    fit: FitParts, make_feed: MakeFeed, given: dict[str, Any], batches: Batches | None
) -> Source:
    epochs = fit.arguments["epochs"]
    if batches is None:
        epochs -= fit.arguments["initial_epoch"]
        at_once = fit.model.steps_per_execution
        return stream_source(
            fit.run,
            make_feed,
            given,
            fit.facts,
            fit.restoration.saved,
            epochs=epochs,
            steps_at_once=at_once,
        )
    return row_source(
        fit.run,
        batches,
        given,
        fit.facts,
        fit.restoration.saved,
        fit.plan.batches,
        order_seed=fit.order_seed,
        epochs=epochs,
    )


def _equalize(watchdog: ft.Watchdog, engine: StepEngine) -> None:
    """Set replicas to the one model, after an exception on all ranks; collective."""
    with watchdog.working():
        engine.consensus()


def _count(fit: FitParts, source: Source, start: FitStart) -> None:
    """Count the samples to be trained on. Local."""
    run, epochs = fit.run, fit.arguments["epochs"]
    if source.samples is not None:  # a stream's are counted as they arrive
        expected = (epochs - start.epoch) * source.samples - start.samples
        run.records.ledger.expect_samples(max(0, expected))
    run.records.ledger.begin_fit(keras_hooks.parameters(fit.model))
