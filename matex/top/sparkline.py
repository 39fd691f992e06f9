"""A curve as one line of text. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

__all__ = ["BLOCKS", "PLAIN", "sparkline"]

#: Signs for values from the least to the greatest.
BLOCKS = "▁▂▃▄▅▆▇█"

#: The same where a terminal or file takes ASCII alone.
PLAIN = "_.-:=+*#"


def sparkline(values: Sequence[float], width: int, *, signs: str = BLOCKS) -> str:
    """A curve of *values*, oldest first, of at most *width* characters.

    More values than that are shown as means of neighbours. A value that is not finite is shown as a
    space.

    Args:
        values: values at equal distances.
        width: number of characters, at most.
        signs: characters from the least value to the greatest.
    """
    columns = [_mean(part) for part in _parts(values, width)]
    finite = [value for value in columns if math.isfinite(value)]
    if not finite:
        return " " * len(columns)
    least, greatest = min(finite), max(finite)
    span = greatest - least
    if not math.isfinite(span):  # it overflows: the halves do not
        return sparkline([value / 2 for value in columns], width, signs=signs)
    return "".join(
        " "
        if not math.isfinite(value)
        else signs[min(len(signs) - 1, int((value - least) / (span or 1.0) * len(signs)))]
        for value in columns
    )


def _parts(values: Sequence[float], width: int) -> list[Sequence[float]]:
    count = min(width, len(values))
    return [values[i * len(values) // count : (i + 1) * len(values) // count] for i in range(count)]


def _mean(values: Sequence[float]) -> float:
    if not all(map(math.isfinite, values)):
        return math.nan
    return math.fsum(value / len(values) for value in values)
