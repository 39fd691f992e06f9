"""Plan of a fit: its strategy, its batch size, and the division of batches among ranks."""

from __future__ import annotations

from typing import Any

from matex import keras_hooks
from matex.config.named_arguments import named_arguments
from matex.errors import InputError
from matex.fitting.batch_scaling import BatchScaling
from matex.fitting.flat_optimizer import FlatOptimizer
from matex.fitting.replica_check import ReplicaCheck
from matex.fitting.replica_vector import ReplicaVector
from matex.fitting.synchronized_layers import synchronized
from matex.run.context import RunContext
from matex.sources.interface import Source
from matex.sources.stream import Stream
from matex.strategies import Strategy, StrategyContext, Sync, make_strategy, nodes_by

__all__ = ["FitPlan"]


class FitPlan:
    """Configuration resolved for one model and one fit.

    ``strategy`` is synchronous averaging until :meth:`resolve` is called; ``batches`` determines
    the batch size, ``replicas`` compares the replicas of the ranks.
    """

    def __init__(self, run: RunContext, model: Any) -> None:
        self._run = run
        self._model = model
        self.replicas = ReplicaCheck(run, model, every=run.config.check_every)
        self.batches = BatchScaling(run.config, run.communicator)
        self.strategy: Strategy = Sync()

    def resolve(self, source: Source, *, seed: int, epochs: int) -> None:
        """Choose the strategy for the built model; replicas are equal before the first step. Local.

        Raises:
            InputError: on every rank.
        """
        run, model, config = self._run, self._model, self._run.config
        self.batches.refuse(stream=isinstance(source, Stream))
        if config.strategy == "sync":
            return
        traits = keras_hooks.traits_of(model.optimizer)
        if traits.scales_loss:
            raise InputError(
                f"strategy {config.strategy} wants an optimizer that makes every update. "
                "Received: LossScaleOptimizer, which leaves some out; train in float32 or bfloat16"
            )
        replica = ReplicaVector(model)
        self.strategy = make_strategy(
            StrategyContext(
                communicator=run.communicator,
                replica=replica,
                options=config,
                seed=seed,
                epochs=epochs,
                nesterov=keras_hooks.nesterov_momentum(model.optimizer),
                centre_optimizer=self._centre_optimizer(replica),
            )
        )
        if self.strategy.moves_weights_alone and traits.forgets_weights:
            raise InputError(
                f"strategy {config.strategy} moves weights, which Ftrl would take back: it makes "
                "them of its own state in each update. "
                f"Received: {type(model.optimizer).__name__}; take another optimizer, or strategy "
                "gossip, which averages that state, too"
            )
        self._say_one_level()
        alike = self.strategy.sums_gradients
        self.replicas = ReplicaCheck(run, model, every=config.check_every, alike=alike)

    def _centre_optimizer(self, replica: ReplicaVector) -> FlatOptimizer | None:
        given = self._run.config.centre_optimizer
        if given is None:
            return None
        name, options = named_arguments(given)
        return FlatOptimizer(name, options, self._model.trainable_variables, replica.dtype)

    def _say_one_level(self) -> None:
        run, config = self._run, self._run.config
        if not config.two_level:
            return
        ranks = run.communicator.world.ranks
        if len(nodes_by(run.communicator, config.ranks_per_node)(ranks)) == 1:
            received = (
                f"{len(ranks)} ranks on one; ranks_per_node makes smaller ones"
                if len(ranks) > 1
                else "one rank"
            )
            run.terminal.say_once(
                f"strategy {config.strategy} has one level: two_level wants ranks on several "
                f"nodes. Received: {received}"
            )

    def step_options(self, source: Source) -> dict[str, Any]:
        """Keyword arguments of :func:`matex.steps.traced_step.trace_step` for a fit on *source*."""
        sums = self.strategy.sums_gradients
        return {
            "sums_gradients": sums,
            "scales_rate": self.batches.scales_rate,
            "capacity": source.capacity if sums else None,
            "synchronized": synchronized(self._run, self._model),
        }

    def rate_factor(self, epochs_done: float) -> float:
        """Factor for the learning rate of the step after *epochs_done* epochs. Local."""
        return self.batches.rate_factor(epochs_done, strategy=self.strategy)

    def epoch_done(self, loss: float | None) -> dict[str, Any]:
        """Tell the strategy that an epoch has ended with *loss*. Local.

        Returns:
            Fields about the strategy for the event of the epoch.
        """
        self.strategy.epoch_ended(loss)
        return self.strategy.report()
