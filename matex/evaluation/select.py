"""Choice of the iterator of evaluate and predict by the kind of data."""

from __future__ import annotations

from typing import Any

from matex.errors import NotShareable
from matex.evaluation.predict import SharedPrediction
from matex.evaluation.rows import RowEvaluation
from matex.evaluation.stream import StreamEvaluation
from matex.evaluation.test_step import Sharing
from matex.keras_hooks.models import refuse_scopes
from matex.partition.order import as_stored
from matex.partition.passes import Passes
from matex.run.context import RunContext
from matex.sources.data_agreement import check_same_data
from matex.sources.interface import RowSource, Source
from matex.sources.select import BATCH_SIZE, MakeFeed, rows_of, stream_of

__all__ = ["SharedIterators"]


class SharedIterators:
    """Makes the evaluation and prediction iterators of one run. Each method is collective.

    Arguments of the methods: the model, a function that makes Keras's own iterator, and the
    arguments for that.
    """

    def __init__(self, run: RunContext) -> None:
        self._run = run

    def evaluation(
        self,
        model: Any,
        feed: MakeFeed,
        given: dict[str, Any],
        *,
        passed: Passes | None = None,
    ) -> RowEvaluation | StreamEvaluation:
        """Shared iterator of ``evaluate`` and of fit's validation.

        Args:
            passed: passes that this evaluation goes on after; None, the default, if none were
                made. Where the other ranks made them, the call is local.

        Raises:
            NotShareable: every rank must evaluate all of the data.
        """
        run = self._run
        self._refuse_shares(model)
        batches = rows_of(**{**given, "steps_per_epoch": None})
        passed = passed or Passes()
        if not passed.are_of_others:
            check_same_data(run.communicator, given["x"], batches, "evaluate")
        if batches is None:
            evaluation = StreamEvaluation(
                run.communicator,
                model,
                stream_of(run.communicator, feed, given, say=run.terminal.say_once),
                faults=run.steps.faults,
                progress=run.watchdog.progress,
                say=run.terminal.say_once,
            )
            evaluation.go_on_after(passed)
            return evaluation
        steps = given.get("steps_per_epoch")
        # Keras spreads all rows over the steps where no size is given.
        size = -(-batches.samples // steps) if steps else BATCH_SIZE
        return RowEvaluation(
            run.communicator,
            model,
            batches,
            batch_size=given.get("batch_size") or size,
            steps=steps,
            faults=run.steps.faults,
            watchdog=run.watchdog,
            say=run.terminal.say_once,
            sharing=Sharing(passed.sharing) if passed.sharing >= 0 else None,
        )

    def _refuse_shares(self, model: Any) -> None:
        """Refuse to share if results must be bit-identical for any number of ranks.

        Raises:
            NotShareable: virtual workers share the batches of training, or the model is of a
                strategy of ``tf.distribute``.
        """
        refuse_scopes(model)
        if self._run.ranks.virtual_workers:
            raise NotShareable("with --deterministic no bit may follow from the ranks")

    def prediction(self, model: Any, feed: MakeFeed, given: dict[str, Any]) -> SharedPrediction:
        """Shared iterator of ``predict``.

        Raises:
            NotShareable: every rank must predict all of the data.
        """
        run = self._run
        self._refuse_shares(model)
        batches = rows_of(**given)
        check_same_data(run.communicator, given["x"], batches, "predict")
        source: Source
        if batches is None:
            source = stream_of(run.communicator, feed, given, say=run.terminal.say_once)
        else:
            size = given.get("batch_size") or BATCH_SIZE
            source = RowSource(
                batches, batch_size=size, row_order=as_stored(batches.samples), order="stored"
            )
        return SharedPrediction(
            run.communicator,
            source,
            model=model,
            steps_per_execution=model.steps_per_execution,
            faults=run.steps.faults,
            progress=run.watchdog.progress,
            say=run.terminal.say_once,
        )
