"""Facts about the batches of a fit, as stored in a checkpoint; and how they have changed. Pure."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

__all__ = ["BATCHES", "FitBatches"]

#: Name in ``extra`` of a checkpoint.
BATCHES = "batches"


@dataclass(frozen=True)
class FitBatches:
    """Facts about the batches of a fit.

    Args:
        rows: most rows of a batch; None if not known beforehand.
        order: order of the samples, as the event ``fit`` names it.
        changed: changes of both in words, at checkpoints from which the fit continued.
    """

    rows: int | None = None
    order: str = ""
    changed: tuple[str, ...] = ()

    def packed(self) -> np.ndarray:
        """Facts as an array of bytes, for ``extra`` of a checkpoint."""
        return np.frombuffer(json.dumps(dataclasses.asdict(self)).encode(), np.uint8)

    @classmethod
    def stored_in(cls, extra: Mapping[str, np.ndarray]) -> FitBatches:
        """Facts that :meth:`packed` stored; older checkpoints have none."""
        if BATCHES not in extra:
            return cls()
        found = json.loads(extra[BATCHES].tobytes())
        return cls(found["rows"], found["order"], tuple(found["changed"]))

    def after(self, before: FitBatches) -> FitBatches:
        """These batches with their changes in relation to those *before* the checkpoint."""
        found = []
        if self.rows and before.rows and self.rows != before.rows:
            found.append(f"batches of {self.rows} rows after a checkpoint of {before.rows}")
        if before.order and self.order != before.order:
            found.append(f"the order '{self.order}' after a checkpoint of '{before.order}'")
        return dataclasses.replace(self, changed=(*before.changed, *found))
