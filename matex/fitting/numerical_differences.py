"""Differences between the numbers of a fit and those of plain Keras."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matex import keras_hooks
from matex.fitting.fit_plan import FitPlan
from matex.fitting.synchronized_layers import normalized_alone, synchronized
from matex.keras_hooks.batch_moments import wandering_biases
from matex.keras_hooks.models import drawing_from, is_in_float16
from matex.keras_hooks.optimizers import setting_when_built
from matex.records.equality import Circumstances, differences
from matex.run.context import RunContext
from matex.sources.interface import Source
from matex.steps.end_of_data import ends_by_step
from matex.steps.model_step import ModelStep

__all__ = ["NumericalDifferences"]


class NumericalDifferences:
    """Reasons for which the numbers of a fit differ from plain Keras's. Local.

    ``changed`` names what is otherwise than in the checkpoint that the fit continues from.

    Args:
        run: run of the fit.
        model: model being trained.
        plan: plan of the fit, with its strategy.
    """

    def __init__(self, run: RunContext, model: Any, plan: FitPlan) -> None:
        self._run = run
        self._model = model
        self._plan = plan
        self.changed: Sequence[str] = ()

    def names(self, source: Source, step: ModelStep | None = None) -> list[str]:
        """Names of the reasons for which the fit's numbers differ from plain Keras's. Local.

        Args:
            source: source of the batches.
            step: step of the fit; None if every rank computes whole batches.
        """
        run, config, strategy = self._run, self._run.config, self._plan.strategy
        traits = keras_hooks.traits_of(self._model.optimizer)
        copied = setting_when_built(self._model)
        dropped = self._may_drop_gradients(source)
        mapped = drawing_from(self._model, source.resources)
        if step is None:
            return differences(
                Circumstances(
                    parts=1,
                    order=source.order,
                    changed=self.changed,
                    apoptosis=config.apoptosis,
                    copied=copied,
                    dropped=dropped,
                    mapped=mapped,
                )
            )
        over_ranks = synchronized(run, self._model)
        return differences(
            Circumstances(
                parts=run.ranks.virtual_workers or run.ranks.active,
                order=source.order,
                changed=self.changed,
                strategy=strategy.name,
                batch_per_rank=config.batch_per_rank,
                lr_scaling=config.lr_scaling,
                compression=config.compression if strategy.sums_gradients else "none",
                apoptosis=config.apoptosis,
                normalized_alone=normalized_alone(self._model, over_ranks),
                wandering=len(wandering_biases(self._model, over_ranks)),
                shifted=sorted(step.shifted),
                summed=() if traits.takes_sums else sorted(step.summed_embeddings),
                copied=copied,
                dropped=dropped,
                mapped=mapped,
                in_float16=is_in_float16(self._model),
            )
        )

    def _may_drop_gradients(self, source: Source) -> bool:
        """Whether plain Keras may drop accumulated gradients at the end of data."""
        steps = getattr(self._model.optimizer, "gradient_accumulation_steps", None)
        ends = source.samples is None and source.num_batches is None and ends_by_step(self._model)
        return bool(steps and ends)
