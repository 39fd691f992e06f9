"""Record of the separability checks of a step, kept as long as the step is."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from matex.sources.interface import GlobalBatch
from matex.steps.separability.comparison import Value

__all__ = ["CheckRecord"]

# Rounding, relative to the values in the first check. Gradients of a trained model are differences
# of larger numbers, so they are known less precisely than their own size says.
_ROUNDING = 3e-5


@dataclass
class CheckRecord:
    """Results of the checks of one step, and what a repeated check needs to know.

    ``is_made`` is whether all ranks found that batches can be divided. ``is_refuted`` is whether a
    repeated check of some rank has found since that they cannot, equal on all ranks, and ``found``
    is what this rank's own found. ``steps`` is the number of steps since the first check, and
    ``most_rows`` the largest number of rows that a check computes at once.
    """

    is_made: bool = False
    is_refuted: bool = False
    found: str = ""
    steps: int = 0
    most_rows: int = 0
    _scales: dict[tuple[int, str], float] = field(default_factory=dict)
    _gradients: dict[int, float] = field(default_factory=dict)

    def note_rows(self, batch: GlobalBatch, ranks: int) -> None:
        """Let checks have twice the rows of one of *ranks* ranks at most, and those of *batch*."""
        lo, hi = batch.span
        self.most_rows = min(hi - lo, 2 * math.ceil((hi - lo) / ranks))

    def note(self, values: Iterable[Value], exchange: int = 0) -> None:
        """Note the sizes of *values* in the first check of *exchange*; later calls are ignored.

        Args:
            exchange: number of the exchange in the step, 0 by default.
        """
        if exchange in self._gradients:
            return
        largest = 0.0
        for value in values:
            self._scales[exchange, value.name] = value.scale
            largest = max(largest, value.scale if value.is_gradient else 0.0)
        self._gradients[exchange] = largest

    def with_floors(
        self, values: Iterable[Value], exchange: int = 0, *, known_only: bool = True
    ) -> list[Value]:
        """*values* whose tolerance is at least the rounding error of the first check. Local.

        It is 3e-5 of a value's magnitude there; for a gradient, of that of the largest gradient.

        Args:
            exchange: see :meth:`note`.
            known_only: whether to leave out values unknown there, True by default.
        """
        found = []
        for value in values:
            scale = self._scales.get((exchange, value.name))
            if scale is None:
                found += [] if known_only else [value]
                continue
            if value.is_gradient:
                scale = max(scale, self._gradients[exchange])
            found.append(value._replace(floor=max(value.floor, _ROUNDING * scale)))
        return found
