"""Agreement of all ranks after an epoch: stop, learning rate, equal weights."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import ft
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
        self._has_own_callbacks = any(
            not keras_hooks.is_of_keras(callback) for callback in keras_hooks.listed(callbacks)
        )

    def settle(self, epoch: int, *, stops: bool) -> Agreed:
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
        row[2] = int(model_state.weights_hash(model_state.weights_of(model)), 16)
        row[3] = run.elastic.is_short
        gathered = run.communicator.allgather(row)
        self._settle_weights(gathered, epoch)
        if rate is not None:
            leader_s = gathered[min(gathered.ranks)]
            rate.assign(float(leader_s[1].view(np.float64)))
        return Agreed(bool(gathered.rows[:, 0].any()), bool(gathered.rows[:, 3].any()))

    def _settle_weights(self, gathered: ft.Gathered, epoch: int) -> None:
        """Make weights equal on all ranks; collective if they differ.

        Args:
            gathered: rows with the 64-bit hash of each rank's weights in column 2.
        """
        ranks, hashes = gathered.ranks, gathered.rows[:, 2].tolist()
        if not self._has_own_callbacks:
            check_hashes(ranks, hashes, f"after epoch {epoch}")
        if len(set(hashes)) == 1:
            return
        run, leader = self._run, min(ranks)
        others = [rank for rank, digest in zip(ranks, hashes, strict=True) if rank != leader
                  and digest != gathered[leader][2]]  # fmt: skip
        model_state.broadcast(run.communicator, self._model)
        run.records.events.write("weights-settled", epoch=epoch, leader=leader, ranks=others)
        run.terminal.say(
            f"after epoch {epoch} callbacks changed the weights differently on rank "
            f"{', '.join(map(str, others))} than on rank {leader}, whose weights all ranks now have"
        )
