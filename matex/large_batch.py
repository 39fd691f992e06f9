"""A batch that grows with the ranks: how large it is now, and at which learning rate."""

from __future__ import annotations

from typing import Any

import ft
from matex.config import Config
from matex.config.lr_scaling import rate_factor
from matex.errors import InputError
from matex.strategies.nodes import nodes_by
from matex.strategies.rules.elastic import pace

__all__ = ["LargeBatch"]


class LargeBatch:
    """What ``--batch-per-rank`` and ``--lr-scaling`` come to in each step. Local.

    Everything follows from who was expected in the step, which is equal on all
    ranks: one that died in it still counts in it, for the others compute its share.
    """

    def __init__(self, config: Config, communicator: ft.Communicator) -> None:
        self._config = config
        self._communicator = communicator
        self._nodes = nodes_by(communicator, config.ranks_per_node)

    @property
    def scales_rate(self) -> bool:
        return self._config.lr_scaling != "none"

    def parts(self) -> int:
        """How many times the script's batch size a step has."""
        return self._ranks if self._config.batch_per_rank else 1

    @property
    def _ranks(self) -> int:
        return len(self._communicator.pending.expected)

    def rate_factor(self, epochs_done: float) -> float:
        """The factor for the learning rate of a step."""
        config, ranks = self._config, self._ranks
        factor = rate_factor(
            config.lr_scaling, ranks, epochs_done=epochs_done, warm_up=config.warmup_epochs
        )
        if not self.scales_rate or config.strategy != "easgd":
            return factor
        # The centre is one more that must be moved, and so are those of nodes.
        nodes = len(self._nodes(self._communicator.pending.expected)) if config.two_level else 1
        return factor / pace(ranks, centres=nodes + 1 if nodes > 1 else 1)

    def refuse(self, model: Any, *, stream: bool) -> None:
        """Raise for what cannot grow.

        Raises:
            InputError: alike on every rank.
        """
        from matex import keras_hooks

        if stream and self._config.batch_per_rank:
            raise InputError(
                "batch_per_rank wants arrays or matex.data.open, whose batches fit makes. "
                "Received: batches that the script has made; make them as large as they should be"
            )
        if self.scales_rate and keras_hooks.learning_rate_variable(model.optimizer) is None:
            raise InputError(
                "lr_scaling wants an optimizer whose learning rate is a number. Received: a "
                "schedule; scale it in the script, or use the LearningRateScheduler callback"
            )
