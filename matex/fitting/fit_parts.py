"""Parts of a fit, before its data are known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from matex.fitting.fit_plan import FitPlan
from matex.fitting.fit_state.fit_checkpoint import FitCheckpoint
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
    checkpoint: FitCheckpoint
    whole: WholeBatches
    trained: TrainedModels
