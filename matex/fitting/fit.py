"""One call of ``model.fit``: what comes before its first step and between its steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import checkpoints
import ft
from matex import keras_hooks
from matex.apoptosis import rebuild
from matex.checkpointing import model_state
from matex.data import Batches
from matex.errors import HooksError, InputError, MatexError, NotShareable
from matex.fitting.agreement import check_alike, check_hashes
from matex.fitting.fit_checkpoint import FitCheckpoint, is_of_fit
from matex.fitting.fit_plan import FitPlan
from matex.fitting.replicated_update import ReplicatedUpdate
from matex.fitting.spare_handover import Handover
from matex.fitting.spares import FitSpares
from matex.fitting.whole_batches import WholeBatches
from matex.keras_hooks.versions import TESTED
from matex.run.context import RunContext
from matex.run.preemption import leave
from matex.sources.data_agreement import check_same_data, check_same_validation
from matex.sources.interface import RowSource, Source
from matex.sources.ring_rows import RingRows
from matex.sources.select import BATCH_SIZE, MakeFeed, once, rows_of, stream_of
from matex.sources.stream import Stream
from matex.steps.engine import Traced, Training
from matex.steps.step import Step
from matex.steps.user_code import attempted

__all__ = ["Fit"]

# Gradients below it are not worth a line.
_LARGE_BYTES = 4 << 20


class Fit:
    """Collective from beginning to end: every rank makes the same fit.

    Args:
        number: which fit of the script, from 0.
        order_seed: seed of the order of the samples.
        arguments: all arguments of ``model.fit``, by name.
        averaging: update of steps that cannot be shared.
    """

    def __init__(
        self,
        run: RunContext,
        model: Any,
        *,
        number: int,
        order_seed: int,
        arguments: dict[str, Any],
        averaging: ReplicatedUpdate,
    ) -> None:
        # Numbers of NumPy's are as good, but are not for JSON.
        for name in ("epochs", "initial_epoch", "batch_size"):
            if hasattr(arguments[name], "__index__"):
                arguments[name] = int(arguments[name])
        self._run = run
        self._model = model
        self._number = number
        self._order_seed = order_seed
        self._arguments = arguments
        self._averaging = averaging
        self._begun = False
        self._way = FitPlan(run, model)
        saved = run.saved
        self._state = FitCheckpoint(
            run,
            model,
            number=number,
            callbacks=arguments["callbacks"],
            saved=saved if is_of_fit(saved, number) else None,
        )
        self._training: Training | None = None
        self._whole: WholeBatches | None = None
        self._logs: dict[str, Any] = {}
        self._updates_at_step_0 = 0
        self._reserve = FitSpares(run, model, self._state, self._way.replicas)
        self._joined: Handover | None = None

    @property
    def is_past(self) -> bool:
        """Whether the checkpoint that the run continues from was made after this fit."""
        saved = self._run.saved
        return saved is not None and saved.cursor["fit"] > self._number

    @property
    def begun(self) -> bool:
        return self._begun

    def begin(self, make_feed: MakeFeed, given: dict[str, Any]) -> Any:
        """What Keras is to iterate over: shared steps, or its own iterator; collective.

        Args:
            make_feed: makes Keras's own iterator.
            given: what Keras would make it from.

        Raises:
            InputError, Unsupported: alike on every rank.
        """
        self._begun = True
        keras_hooks.verify(type(self._model))
        keras_hooks.refuse(self._model)
        make_feed = once(make_feed)
        batches = rows_of(**given)
        check_same_data(self._run.communicator, given["x"], batches, "fit")
        check_same_validation(self._run.communicator, self._arguments["validation_data"])
        generators = keras_hooks.Generators()
        try:
            self._training = self._begin_shared(make_feed, given, batches)
        except NotShareable as reason:
            self._be_whole(reason, kept="no checkpoint is made of this fit")
            return make_feed(given["x"])
        finally:
            generators.put_back(built=True)
        return self._training

    def _be_whole(self, reason: NotShareable, *, kept: str) -> None:
        """Batches cannot be cut, which all ranks know; local."""
        run = self._run
        but = f"; {kept}" if run.saver.is_on else ""
        if run.config.strategy != "sync":
            but += f"; strategy {run.config.strategy} is not used"
        if run.config.shuffle == "ring" and self._training is None:
            but += "; shuffle ring is not used"
        self._whole = WholeBatches(run, self._model, self._averaging, reason, but=but)
        run.events.write("fit", fit=self._number, step=run.step, whole=str(reason))

    def step(self, original: Callable[[Any], Any], iterator: Any) -> Any:
        """What Keras's train function does with *iterator*; collective. The logs."""
        if self._training is not None:
            logs = self._training.run(lambda data, rows: self._whole_step(original, data, rows))
        else:
            assert self._whole is not None
            logs = self._whole.step(lambda: original(iterator))
        self._logs = logs
        return logs

    def _whole_step(self, original: Callable[[Any], Any], data: Any, rows: int) -> Any:
        assert self._whole is not None
        assert self._training is not None
        return self._whole.of_training(self._training, original)(data, rows)

    @property
    def _flags(self) -> Training | ReplicatedUpdate:
        """The object by which the ranks agree on a stop."""
        shared = None if self._whole is not None else self._training
        return shared or self._averaging

    def _begin_shared(
        self, make_feed: MakeFeed, given: dict[str, Any], batches: Batches | None
    ) -> Training:
        run, model = self._run, self._model
        keras_hooks.refuse_to_cut(model)
        source = self._source(make_feed, given, batches)
        with attempted("the model cannot be built from its data before training"):
            keras_hooks.build(model, source.built_on)
        if self._state.saved is not None:
            _cut_as_in(self._state.saved, model)
        way = self._way
        way.choose(source, seed=self._state.seed, epochs=self._arguments["epochs"])
        options = way.step_options(source)
        traced = self._traced_before(source, options["most_rows"])
        traced = traced or (Training.new_step(model, source, **options), None)
        self._tell_dense(traced[0])
        batch_size = given["batch_size"] or BATCH_SIZE
        check_alike(run.communicator, model, source, batch_size, number=self._number)
        cursor = {"epoch": self._arguments["initial_epoch"], "samples": 0}
        saved = self._state.saved
        if saved is not None:
            self._state.restore()
            self._resume(source, saved, cursor["epoch"])
            cursor |= saved.cursor
            keras_hooks.start_at(model, cursor["epoch"])
        model_state.broadcast(run.communicator, model)
        epochs: int = self._arguments["epochs"]
        if source.samples is not None:  # a stream's are counted as they come
            expected = (epochs - cursor["epoch"]) * source.samples - cursor["samples"]
            run.totals.samples_expected += max(0, expected)
        parameters = keras_hooks.parameters(model)
        run.totals.parameters_start = run.totals.parameters_start or parameters
        run.totals.parameters_end = parameters
        self._count_updates()
        run.events.write(
            "fit",
            fit=self._number,
            step=run.step,
            samples=source.samples,
            batch_size=batch_size * way.batches.parts(),
            epochs=epochs,
            strategy=way.strategy.name,
            first_epoch=cursor["epoch"],
            cursor=cursor["samples"],
            world_size=run.size_of(run.communicator.world),
        )
        return Training(
            run.communicator,
            model,
            source,
            faults=run.faults,
            make_exchange=run.make_exchange,
            first_epoch=cursor["epoch"],
            cursor=cursor["samples"],
            on_epoch_start=self._state.restore_metrics,
            rate_factor=way.rate_factor,
            strategy=way.strategy,
            after_step=self._after_step,
            wishes=run.wishes,
            traced=traced,
            nonfinite=run.nonfinite,
            stepping=run.stepping,
            leaves_nonfinite=keras_hooks.looks_for_nan(self._arguments["callbacks"]),
            on_whole=lambda reason: self._be_whole(
                reason, kept="checkpoints are made of it at ends of epochs only"
            ),
        )

    def _source(
        self, make_feed: MakeFeed, given: dict[str, Any], batches: Batches | None
    ) -> Source:
        if batches is None:
            run = self._run
            if run.config.shuffle == "ring":
                raise InputError(
                    "shuffle ring wants arrays or rows of matex.data.open, which are known by "
                    f"number. Received: x={type(given['x']).__module__}."
                    f"{type(given['x']).__name__}; give those, or leave --shuffle ring out"
                )
            epochs = self._arguments["epochs"] - self._arguments["initial_epoch"]
            return stream_of(
                run.communicator,
                make_feed,
                given,
                say=run.say_once,
                passes=max(1, epochs),
                continues=run.config.checkpoint is not None,
            )
        batch_size = given["batch_size"] or BATCH_SIZE
        self._state.seed = self._common_seed()
        if self._state.saved is not None:
            self._state.seed = self._state.saved.cursor["seed"]
        shuffle = bool(given["shuffle"])
        if self._run.config.shuffle == "ring":
            return RingRows(
                batches,
                self._run.communicator,
                batch_size=batch_size,
                parts=self._way.batches.parts,
                shuffle=shuffle,
                seed=self._state.seed,
                epochs=self._arguments["epochs"],
            )
        return RowSource(
            batches,
            batch_size=batch_size,
            parts=self._way.batches.parts,
            shuffle=shuffle,
            seed=self._state.seed,
        )

    def _resume(self, source: Source, saved: checkpoints.Snapshot, initial_epoch: int) -> None:
        mark = saved.cursor.get("mark", 0)
        if isinstance(source, RowSource):
            source.resume(saved.cursor["samples"], mark)
        if isinstance(source, Stream):
            source.resume(saved.cursor["epoch"] - initial_epoch, mark)
            self._run.say("going through the data to where the checkpoint was made")

    def _tell_dense(self, step: Step) -> None:
        """Say which gradients are far larger on their way than what was looked up."""
        large = {name: n for name, n in step.slots.summed.items() if n >= _LARGE_BYTES}
        if large and self._run.communicator.initial_size > 1:
            names = ", ".join(f"{name} {n / 1e6:.0f} MB" for name, n in large.items())
            self._run.say_once(
                f"gradients of embeddings travel as whole tables in each step: {names}; as the "
                "rows that were looked up where batches have one size, look up as many places "
                "for each of their rows, and these take less"
            )

    def _traced_before(self, source: Source, most_rows: int | None) -> Traced | None:
        """What the last fit traced, where Keras too would use its own again.

        Keras drops a model's train function when the model is compiled anew.
        """
        traced: Traced | None = getattr(self._model.train_function, "traced", None)
        if traced is None or traced[0].form != source.as_data(source.signature):
            return None
        if not traced[0].slots.take(most_rows):
            return None
        return traced

    def end(self) -> None:
        """After the last step, whatever ended it; local."""
        self._averaging.in_fit = False
        if self._joined is not None:
            self._joined.end(self._model)
        if self._training is not None:
            self._training.close()
        if self._training is not None and self._model.train_function is not None:
            self._model.train_function.traced = self._training.traced

    def renew(self) -> None:
        """Between two steps: the model's shapes have changed; local."""
        self._state.renew()
        if self._training is not None:
            self._training.renew()

    def _common_seed(self) -> int:
        """The order seed of rank 0, since an unseeded script's differs by rank; collective."""
        seed = np.array([self._order_seed], np.int64)
        self._run.communicator.broadcast(seed)
        return int(seed[0])

    def _after_step(self, training: Training) -> None:
        run = self._run
        if training.samples_in_epoch is None:
            run.totals.samples_expected += training.samples_taken
        run.step_done(training.report, model=self._model)
        self._way.after_step(training)
        self._state.after_step(training)

    def after_restore(self) -> None:
        """BackupAndRestore may have put the leader's model back: bring all there; collective.

        A checkpoint of the run's own is newer and counts instead.
        """
        model, training = self._model, self._training
        saved = self._state.saved
        if saved is not None:
            self._state.restore()
            keras_hooks.start_at(model, saved.cursor["epoch"])
            return
        if not model.optimizer.built:  # reading a file has built the leader's
            model.optimizer.build(model.trainable_variables)
        model_state.broadcast(self._run.communicator, model)
        given = self._arguments["initial_epoch"]
        epoch = np.array([keras_hooks.first_epoch(model, given)], np.int64)
        self._run.communicator.broadcast(epoch)
        keras_hooks.start_at(model, int(epoch[0]))
        if training is None:
            return
        training.begin_at(int(epoch[0]))
        if training.samples_in_epoch is not None:
            done = min(int(epoch[0]), self._arguments["epochs"]) - given
            self._run.totals.samples_expected -= done * training.samples_in_epoch
        self._count_updates()

    def _count_updates(self) -> None:
        made = keras_hooks.updates_made(self._model.optimizer) or 0
        self._updates_at_step_0 = made - self._run.step

    def after_begin(self) -> None:
        """After the callbacks have begun; collective, and where a spare waits.

        Raises:
            Dismissed: on a spare, when the others leave.
        """
        self._state.restore_callbacks()
        first = keras_hooks.first_epoch(self._model, self._arguments["initial_epoch"])
        if self._training is not None and first < self._arguments["epochs"]:
            self._joined = self._reserve.open(self._training)
            if self._joined is not None:
                self._join(self._joined)

    def _join(self, joined: Handover) -> None:
        """Stand where the other ranks do. Local: what fails here fails on this rank alone."""
        try:
            if _cut_as_in(joined.saved, self._model):
                self.renew()
            joined.restore(self._model, self._state, self._arguments["callbacks"])
        except MatexError as error:
            ft.fail_stop(f"a spare cannot go on from the state of the others: {error}")
        self._count_updates()
        assert self._training is not None
        joined.begin(self._model, self._training, self._arguments)

    def passed_validation(self) -> tuple[int, ...] | None:
        """What the other ranks have done with the validation data, told once.

        None where this one goes with them.
        """
        return None if self._joined is None else self._joined.passed_validation()

    def after_batch(self) -> None:
        """After the callbacks of a batch. One that wants to stop tells the others first.

        Raises:
            Leaving: every batch is computed whole on every rank, and it was agreed to leave.
        """
        flags = self._flags
        if flags is self._averaging and self._averaging.leave_agreed:
            leave(self._run, None)
        if flags.stop_agreed:
            self._model.stop_training = True
        elif self._model.stop_training and not self._ends_by_nan():
            flags.stop_wanted = True
            self._model.stop_training = False

    def _ends_by_nan(self) -> bool:
        """Whether the script's TerminateOnNaN, which sees the same on all ranks, ended training."""
        if not keras_hooks.looks_for_nan(self._arguments["callbacks"]):
            return False
        return not np.isfinite(float(self._logs.get("loss", 0.0)))

    def after_epoch(self, epoch: int, logs: Any) -> None:
        """After the callbacks of an epoch: decide together, compare replicas; collective.

        Raises:
            ReplicasDiverged, HooksError: on every rank.
        """
        run, model = self._run, self._model
        flags = self._flags
        self._check_updates()
        rate = keras_hooks.learning_rate_variable(model.optimizer)
        row = np.zeros(4, np.uint64)
        row[0] = bool(model.stop_training or flags.stop_wanted)
        row[1] = np.float64(0.0 if rate is None else rate.numpy()).view(np.uint64)
        row[2] = int(model_state.weights_hash(model_state.weights_of(model)), 16)
        row[3] = run.is_short
        gathered = run.communicator.allgather(row)
        self._settle_weights(gathered, epoch)
        if rate is not None:
            leader_s = gathered[min(gathered.ranks)]
            rate.assign(float(leader_s[1].view(np.float64)))
        if gathered.rows[:, 0].any():
            model.stop_training = True
            self._leave_out(epoch)
        run.totals.epochs += 1
        run.totals.metrics = {k: float(v) for k, v in (logs or {}).items() if np.ndim(v) == 0}
        training = self._training
        told = self._way.after_epoch(run.totals.metrics.get("loss"))
        told |= {} if training is None else training.source.report()
        run.events.write("epoch", epoch=epoch, step=run.step, **run.totals.metrics, **told)
        last = model.stop_training or epoch + 1 == self._arguments["epochs"]
        if training is not None and training.epoch_is_whole:
            short = bool(gathered.rows[:, 3].any())
            self._state.after_epoch(
                epoch, mark=training.mark, logs=logs or {}, last=last, short=short
            )
        if training is not None and last:
            self._reserve.close(epoch, training.mark, logs or {})

    def _settle_weights(self, gathered: ft.Gathered, epoch: int) -> None:
        """See that all ranks go on with equal weights; collective where they are not.

        Args:
            gathered: rows with the 64-bit hash of each rank's weights in column 2.

        Raises:
            ReplicasDiverged: on every rank, where no callback of the script's can be the reason.
        """
        ranks, hashes = gathered.ranks, gathered.rows[:, 2].tolist()
        own = [c for c in keras_hooks.listed(self._arguments["callbacks"]) if _may_change(c)]
        if not own:
            check_hashes(ranks, hashes, f"after epoch {epoch}")
        if len(set(hashes)) == 1:
            return
        leader = min(ranks)
        others = [rank for rank, digest in zip(ranks, hashes, strict=True) if rank != leader
                  and digest != gathered[leader][2]]  # fmt: skip
        model_state.broadcast(self._run.communicator, self._model)
        self._run.events.write("weights-settled", epoch=epoch, leader=leader, ranks=others)
        self._run.say(
            f"after epoch {epoch} callbacks changed the weights differently on rank "
            f"{', '.join(map(str, others))} than on rank {leader}, whose weights all ranks now have"
        )

    def _leave_out(self, epoch: int) -> None:
        """Training stops in or after *epoch*: what was still to come is not expected any more."""
        training = self._training
        samples = None if training is None else training.samples_in_epoch
        if training is not None and samples is not None:
            left = samples - training.cursor
            left += samples * (self._arguments["epochs"] - 1 - epoch)
            self._run.totals.samples_expected -= left

    def _check_updates(self) -> None:
        """Whether each step so far was one update, no more and no less, failures or not."""
        if self._training is None or self._whole is not None:
            return
        made = keras_hooks.updates_made(self._model.optimizer)
        wanted = self._run.step + self._updates_at_step_0
        if made is not None and made != wanted:
            raise HooksError(
                f"{wanted} steps must make {wanted} updates. Received: {made} updates; "
                f"is this another Keras than {TESTED}?"
            )


def _may_change(callback: Any) -> bool:
    """Whether *callback* is of a user's making, and so may change weights in any way."""
    return not keras_hooks.is_of_keras(callback)


def _cut_as_in(saved: checkpoints.Snapshot, model: Any) -> bool:
    """Whether *model* was cut to the widths it had when it was *saved*; local."""
    return rebuild.replay(model, model_state.weights_of(model), saved.extra)
