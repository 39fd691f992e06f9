"""Comparison of a custom loop's numbers with plain Keras's."""

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
    wandering: int = 0,
    in_float16: bool = False,
) -> list[str]:
    """Reasons for which a loop's numbers differ from plain Keras's, printed once. Local.

    Args:
        run: run of the loop.
        shifted, summed, copied: see :class:`matex.records.equality.Circumstances`.
        normalized_alone: number of layers that normalise over the rows of one rank.
        wandering: number of layers whose bias follows rounding.
        in_float16: whether a layer computes in float16.
    """
    found = differences(
        Circumstances(
            parts=run.ranks.active,
            order="stream",
            compression=run.config.compression if run.config.strategy == "sync" else "none",
            normalized_alone=normalized_alone,
            wandering=wandering,
            shifted=sorted(shifted),
            summed=sorted(summed),
            copied=sorted(copied),
            in_float16=in_float16,
        )
    )
    if run.ranks.active > 1:
        run.terminal.say_once(f"numbers: {in_words(found)}")
    return found
