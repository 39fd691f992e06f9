"""Scaling of the batch size and learning rate with the number of ranks."""

from __future__ import annotations

import ft
from matex.config import Config
from matex.config.lr_scaling import rate_factor
from matex.errors import InputError
from matex.strategies import Strategy

__all__ = ["BatchScaling"]


class BatchScaling:
    """Applies ``--batch-per-rank`` and ``--lr-scaling`` to each step. Local.

    Both follow from the ranks expected in the step, which are equal on all ranks: a rank that dies
    in it still counts, because the others compute its share.
    """

    def __init__(self, config: Config, communicator: ft.Communicator) -> None:
        self._config = config
        self._communicator = communicator

    @property
    def scales_rate(self) -> bool:
        return self._config.lr_scaling != "none"

    def multiplier(self) -> int:
        """Batch size of the step as a multiple of the script's."""
        return self._ranks if self._config.batch_per_rank else 1

    @property
    def _ranks(self) -> int:
        return len(self._communicator.pending.expected)

    def rate_factor(self, epochs_done: float, *, strategy: Strategy) -> float:
        """Factor for the learning rate of a step.

        A batch of fixed size is divided among the replicas of the strategy; a growing one has a
        part for each rank.

        Args:
            epochs_done: number of epochs before the step, with the fraction of the running one.
            strategy: strategy of the fit, which determines the number and pace of replicas.
        """
        config = self._config
        if not self.scales_rate:
            return 1.0
        ranks = self._communicator.pending.expected
        count = len(ranks) if config.batch_per_rank else strategy.replicas(ranks)
        factor = rate_factor(
            config.lr_scaling, count, epochs_done=epochs_done, warm_up=config.warmup_epochs
        )
        return factor / strategy.pace()

    def refuse(self, *, stream: bool) -> None:
        """Raise if the batch cannot grow.

        Raises:
            InputError: on every rank.
        """
        if stream and self._config.batch_per_rank:
            raise InputError(
                "batch_per_rank wants arrays or matex.data.open, whose batches fit makes. "
                "Received: batches that the script has made; make them as large as they should be"
            )
