"""Table of the reductions: the way in which each compression sums the vectors of a step.

A new compression is one file, which defines a :class:`Reduction`, and one row here; or it is a
codec for slices, with a row of :data:`matex.exchange.codecs.CODECS`. Its word is a row of
``matex.config.compressions``, too.
"""

from __future__ import annotations

from collections.abc import Callable

from matex.exchange.codecs import CODECS
from matex.exchange.flat_sum import FlatSum
from matex.exchange.hierarchical_allreduce import HierarchicalAllreduce
from matex.exchange.powersgd_sum import PowerSgdSum
from matex.exchange.reduction import Reduction, ReductionTerms

__all__ = ["REDUCTIONS", "make_reduction"]

#: Reductions by the word in ``--compression``, without the rank of factors.
REDUCTIONS: dict[str, Callable[[ReductionTerms], Reduction]] = {
    "none": HierarchicalAllreduce,
    **dict.fromkeys(CODECS, HierarchicalAllreduce),
    "powersgd": PowerSgdSum,
}


def make_reduction(terms: ReductionTerms) -> Reduction:
    """Reduction that ``terms.compression`` and the plan name. Local."""
    if terms.compression == "none" and terms.plan == "flat":
        return FlatSum(terms)
    return REDUCTIONS[terms.compression.partition(":")[0]](terms)
