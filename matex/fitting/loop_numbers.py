"""The numbers of a loop of the script's own beside those of plain Keras."""

from __future__ import annotations

from collections.abc import Iterable

from matex.records.equality import Circumstances, differences, in_words
from matex.run.context import RunContext

__all__ = ["but_for_in_loop"]


def but_for_in_loop(
    run: RunContext,
    *,
    shifted: Iterable[str],
    summed: Iterable[str],
    copied: Iterable[str],
    normalized_alone: int = 0,
) -> list[str]:
    """Names of all for which the numbers of a loop are not those of plain Keras, said once. Local.

    Args:
        run: run that it is part of.
        shifted, summed, copied: see :class:`matex.records.equality.Circumstances`.
        normalized_alone: number of the layers that normalise by the rows of their part.
    """
    found = differences(
        Circumstances(
            parts=run.active,
            order="stream",
            compression=run.config.compression if run.config.strategy == "sync" else "none",
            normalized_alone=normalized_alone,
            shifted=sorted(shifted),
            summed=sorted(summed),
            copied=sorted(copied),
        )
    )
    if run.active > 1:
        run.say_once(f"numbers: {in_words(found)}")
    return found
