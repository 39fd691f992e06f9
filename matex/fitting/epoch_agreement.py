"""Agreement of all ranks after an epoch and after training: stop, rate, equal weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from matex import keras_hooks
from matex.checkpointing import model_state
from matex.fitting.agreement import check_hashes
from matex.run.context import RunContext

__all__ = ["EpochAgreement"]


class Agreed(NamedTuple):
    """Flags that some rank has set, equal on all ranks."""

    stops: bool
    is_short: bool


class EpochAgreement:
    """Makes the ranks of one fit agree after the script's callbacks. Collective.

    Args:
        run: ranks of the run.
        model: model being trained.
        callbacks: callbacks of ``fit``.
    """

    def __init__(self, run: RunContext, model: Any, callbacks: Any) -> None:
        self._run = run
        self._model = model
        self._newest: int | None = None  # epoch
        self._has_own_callbacks = any(
            not keras_hooks.is_of_keras(callback) for callback in keras_hooks.listed(callbacks)
        )

    def agree(self, epoch: int, *, stops: bool) -> Agreed:
        """Agree after *epoch*, with the leader's learning rate and weights.

        Args:
            stops: whether this rank wants training to stop.

        Raises:
            ReplicasDiverged: weights differ, and no callback of the script can be the cause; on
                every rank.
        """
        run, model = self._run, self._model
        rate = keras_hooks.learning_rate_variable(model.optimizer)
        row = np.zeros(4, np.uint64)
        row[0] = stops
        row[1] = np.float64(0.0 if rate is None else rate.numpy()).view(np.uint64)
        row[2] = self._weights_hash()
        row[3] = run.elastic.is_short
        self._newest = epoch
        gathered = run.communicator.allgather(row)
        self._settle_weights(gathered.ranks, gathered.rows[:, 2].tolist(), f"after epoch {epoch}")
        if rate is not None:
            leader_s = gathered[min(gathered.ranks)]
            rate.assign(float(leader_s[1].view(np.float64)))
        return Agreed(bool(gathered.rows[:, 0].any()), bool(gathered.rows[:, 3].any()))

    def agree_end(self) -> None:
        """Agree after the callbacks' ``on_train_end``, with the leader's weights.

        A callback may set weights there, such as the best ones by a value that ranks measure
        differently. Without callbacks of the script all ranks have done the same.
        """
        if self._has_own_callbacks:
            own = np.array([self._weights_hash()], np.uint64)
            gathered = self._run.communicator.allgather(own)
            self._settle_weights(gathered.ranks, gathered.rows[:, 0].tolist(), "after training")

    def _weights_hash(self) -> int:
        return int(model_state.weights_hash(model_state.weights_of(self._model)), 16)

    def _settle_weights(self, ranks: Sequence[int], hashes: Sequence[int], when: str) -> None:
        """Make weights equal on all ranks; collective if they differ.

        Args:
            hashes: 64-bit hash of the weights of each of *ranks*.
            when: time of the hashes, for the line.
        """
        if not self._has_own_callbacks:
            check_hashes(ranks, hashes, when)
        if len(set(hashes)) == 1:
            return
        run, leader = self._run, min(ranks)
        known = dict(zip(ranks, hashes, strict=True))
        others = [rank for rank, digest in known.items() if digest != known[leader]]
        model_state.broadcast(run.communicator, self._model)
        run.records.events.write("weights-settled", epoch=self._newest, leader=leader, ranks=others)
        run.terminal.say(
            f"{when} callbacks changed the weights differently on rank "
            f"{', '.join(map(str, others))} than on rank {leader}, whose weights all ranks now have"
        )
