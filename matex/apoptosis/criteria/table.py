"""Table of the criteria: one row each, in the order in which messages name them. Pure.

A new criterion is one file, which defines a :class:`Criterion`, and one row here. What the command
line offers, what is refused and what a trial measures follow from the table.
"""

from __future__ import annotations

from matex.apoptosis.criteria.baselines import MAGNITUDE, RANDOM
from matex.apoptosis.criteria.criterion import Criterion
from matex.apoptosis.criteria.gram import GRAM
from matex.apoptosis.criteria.importance import OBA, TAYLOR
from matex.apoptosis.criteria.pairs import ANGLE, PROJECTION, SIMILARITY

__all__ = ["CRITERIA"]

#: Criteria by their names.
CRITERIA: dict[str, Criterion] = {
    criterion.name: criterion
    for criterion in (
        GRAM,
        PROJECTION,
        SIMILARITY,
        ANGLE,
        TAYLOR,
        OBA,
        MAGNITUDE,
        RANDOM,
    )
}
