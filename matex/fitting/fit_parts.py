"""Parts of a fit, before its data are known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import checkpoints
from matex import keras_hooks
from matex.fitting.fit_plan import FitPlan
from matex.fitting.fit_state.fit_facts import FitFacts
from matex.fitting.fit_state.fit_restoration import FitRestoration
from matex.fitting.fit_state.fit_snapshots import FitSnapshots
from matex.fitting.numerical_differences import NumericalDifferences
from matex.fitting.replicated_update import ReplicatedUpdate
from matex.fitting.trained_models import TrainedModels
from matex.fitting.whole_batches import WholeBatches
from matex.partition.order import OrderSeed
from matex.run.context import RunContext

__all__ = ["FitParts"]


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
    differences: NumericalDifferences
    facts: FitFacts
    restoration: FitRestoration
    snapshots: FitSnapshots
    whole: WholeBatches
    trained: TrainedModels

    @classmethod
    def of(
        cls,
        run: RunContext,
        model: Any,
        *,
        number: int,
        order_seed: OrderSeed,
        arguments: dict[str, Any],
        saved: checkpoints.Snapshot | None,
        replicated: ReplicatedUpdate,
        trained: TrainedModels,
    ) -> FitParts:
        """Parts of a fit as it is called. Local.

        Args:
            run: run of the fit.
            model: model being trained.
            number: number of the fit in the script, from 0.
            order_seed: seeds of the order of the samples.
            arguments: all arguments of ``model.fit``, by name.
            saved: snapshot from which the fit continues; None if it begins.
            replicated: update for steps that cannot be shared.
            trained: models that the script has trained so far.
        """
        callbacks = arguments["callbacks"]
        facts = FitFacts(run, model, saved)
        restoration = FitRestoration(run.terminal, model, facts, callbacks, saved)
        restoration.begin()
        plan = FitPlan(run, model)
        leaves_nan = keras_hooks.looks_for_nan(callbacks)
        return cls(
            run=run,
            model=model,
            number=number,
            order_seed=order_seed,
            arguments=arguments,
            plan=plan,
            differences=NumericalDifferences(run, model, plan),
            facts=facts,
            restoration=restoration,
            snapshots=FitSnapshots(run, model, facts, number=number, callbacks=callbacks),
            whole=WholeBatches(run, model, replicated, number=number, leaves_nan=leaves_nan),
            trained=trained,
        )
