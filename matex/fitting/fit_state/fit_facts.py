"""Facts about a running fit that its checkpoints hold, beside the model and its callbacks."""

from __future__ import annotations

from typing import Any

import numpy as np

import checkpoints
from matex import keras_hooks
from matex.data.sketch import are_same_data
from matex.fitting.fit_batches import BATCHES, FitBatches
from matex.fitting.fit_state.saved_cursor import VALIDATED
from matex.partition.order import OrderSeed
from matex.partition.passes import Passes
from matex.run.context import RunContext
from matex.strategies import Strategy, Sync

__all__ = ["FitFacts"]

_DATA, _LINES = "data", "csv_lines"


class FitFacts:
    """Facts about a fit, which are found out as it begins; equal on all ranks.

    ``seed`` are the seeds of the order of samples, ``is_raw`` is whether the digests of a stream
    are of batches before their maps, ``data`` are numbers about a few rows, ``strategy`` is the
    strategy, whose state is saved, too.

    Args:
        run: communicator and terminal of the run.
        model: model being trained.
        saved: snapshot from which the fit continues; None if it begins.
    """

    def __init__(self, run: RunContext, model: Any, saved: checkpoints.Snapshot | None) -> None:
        self._run = run
        self._model = model
        self._continues = saved is not None
        extra = {} if saved is None else saved.extra
        self._data_before = extra.get(_DATA)
        self._batches_before = FitBatches.stored_in(extra)
        self._lines: np.ndarray | None = extra.get(_LINES)
        self._validated_before = Passes(0 if saved is None else saved.cursor.get(VALIDATED, 0))
        self.seed = OrderSeed(0)
        self.is_raw = False
        self.data: list[float] = []
        self.batches = FitBatches()
        self.strategy: Strategy = Sync()

    def know_data(self, sketch: list[float]) -> None:
        """Print a line if the data of the fit, with this *sketch*, differ from the checkpoint's."""
        self.data = sketch
        before = self._data_before
        if before is None or are_same_data(before.tolist(), sketch):
            return
        self._run.terminal.say(
            "the data of this fit are not those that the checkpoint was made with "
            f"({before[0]:.0f} rows then, {sketch[0]:.0f} now): if the script makes them of a "
            "model that an earlier fit trained, they are wrong, because that fit is passed over"
        )

    def know_batches(self, batches: FitBatches) -> None:
        """Print a line if the *batches* of the fit differ from the checkpoint's."""
        before = self._batches_before
        self.batches = batches.after(before)
        for change in self.batches.changed[len(before.changed) :]:
            self._run.terminal.say(f"the fit goes on otherwise than before: with {change}")

    @property
    def csv_lines(self) -> list[int]:
        """Lines that the file of each CSVLogger had before this fit, if known."""
        return [] if self._lines is None else [int(count) for count in self._lines]

    def note_lines(self, now: list[int]) -> None:
        """Note, as a fit begins, the lines that files of CSVLoggers have. Collective.

        Args:
            now: their numbers, of which the leader's count.
        """
        if now and not self._continues:
            self._lines = np.array(now, np.int64)
            self._run.communicator.broadcast(self._lines)

    @property
    def validated(self) -> Passes:
        """Passes through the validation data so far."""
        iterator = keras_hooks.validation_of(self._model)
        if iterator is None:
            return self._validated_before
        passes: Passes = getattr(iterator, "passed", Passes(0, 0))
        return passes

    def take_over(self, saved: checkpoints.Snapshot, validated: Passes) -> None:
        """Take over the facts that living ranks know, on a rank that joins them. Local.

        Args:
            saved: state of the other ranks.
            validated: their passes through the validation data.
        """
        self.seed = OrderSeed.of_cursor(saved.cursor)
        self.batches = FitBatches.stored_in(saved.extra)
        self._lines = saved.extra.get(_LINES)
        self._validated_before = validated

    def packed(self) -> dict[str, np.ndarray]:
        """Entries for ``extra`` of a snapshot."""
        state = self.strategy.saved_state()
        return {
            _DATA: np.array(self.data, np.float64),
            BATCHES: self.batches.packed(),
            **({} if self._lines is None else {_LINES: self._lines}),
            **{self._of_strategy + name: value for name, value in state.items()},
        }

    def restore_strategy(self, saved: checkpoints.Snapshot) -> None:
        """Restore the strategy's state of *saved*. Local."""
        prefix, extra = self._of_strategy, saved.extra
        self.strategy.restore_state(
            {
                name.removeprefix(prefix): value
                for name, value in extra.items()
                if name.startswith(prefix)
            }
        )

    @property
    def _of_strategy(self) -> str:
        """Prefix of the names of the strategy's state."""
        return f"strategy/{self.strategy.name}/"
