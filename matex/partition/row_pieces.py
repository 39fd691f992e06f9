"""Rows that a rank has still to compute for a sum, given those whose results it has. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from matex.partition.spans import Span, difference

__all__ = ["MissingRows", "missing_rows"]


class MissingRows(NamedTuple):
    """Rows to compute, and whether the results at hand are dropped before."""

    spans: list[list[Span]]
    """Spans by batch."""
    anew: bool
    """Whether some are of rows that this rank should not have, which cannot be taken out."""


def missing_rows(wanted: Sequence[Sequence[Span]], have: Sequence[Sequence[Span]]) -> MissingRows:
    """Rows to compute so that a rank has the results of exactly the *wanted* ones.

    After a first death each survivor adds its piece of the dead rank's rows. A second death may
    change the pieces: then all is computed anew.

    Args:
        wanted: spans of this rank, by batch.
        have: spans of the results that this rank has, by batch.
    """
    found = [difference(w, h) for w, h in zip(wanted, have, strict=True)]
    spans = [missing for missing in found if missing is not None]
    if len(spans) < len(found):
        return MissingRows([list(each) for each in wanted], True)
    return MissingRows(spans, False)
