"""Comparison of runs side by side, and the cost of faults against a twin without. Pure."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

from matex.report.reading import Run

__all__ = ["compare", "side_by_side"]

_COUNTS = (
    *("status", "world_size_start", "world_size_end", "restarts", "epochs", "steps"),
    *("samples_expected", "samples_used", "samples_lost", "samples_repeated"),
)
_TIMES = ("wall_s", "step_s", "exchange_s")

Row = tuple[str, str, str, str]


def compare(a: Run, b: Run) -> list[Row]:
    """Rows of (fact, in A, in B, B less A), ready for printing.

    ``time lost`` sums, over the recoveries, the time from a fault to the next finished step: faults
    whose recoveries overlap count once.
    """
    rows: list[Row] = [("", "A", "B", "B - A")]
    rows += [_row(name, *values) for name, values in _values((a, b))]
    rows += _largest(a.epochs(), b.epochs())
    hashes = [_hashes(run) for run in (a, b)]
    same = "same bits" if hashes[0] == hashes[1] and len(hashes[0]) == 1 else "not the same bits"
    mine, theirs = (" ".join(sorted(h)) or "-" for h in hashes)
    rows.append(("weights", mine, theirs, same))
    return rows


def side_by_side(runs: Sequence[Run]) -> list[list[str]]:
    """Rows of (fact, in each run), ready for printing, without facts that no run has."""
    rows = [
        [name, *map(_shown, values)]
        for name, values in _values(runs)
        if any(value is not None for value in values)
    ]
    return [*rows, ["weights", *(" ".join(sorted(_hashes(run))) or "-" for run in runs)]]


def _values(runs: Sequence[Run]) -> Iterator[tuple[str, list[Any]]]:
    """Facts by which runs are compared, with their values; None if unknown."""
    for key in (*_COUNTS, *_TIMES):
        yield key, [run.summary.get(key) for run in runs]
    yield "time lost to faults, s", [_time_lost(run) for run in runs]
    yield "ranks lost", [sum(life.lost for life in run.lives()) for run in runs]
    metrics = [run.summary.get("metrics", {}) for run in runs]
    for key in dict.fromkeys(itertools.chain.from_iterable(metrics)):
        yield f"{key}, last epoch", [of_run.get(key) for of_run in metrics]


def _hashes(run: Run) -> set[str]:
    return set(run.summary.get("weights_hash", {}).values())


def _largest(a: list[dict[str, float]], b: list[dict[str, float]]) -> list[Row]:
    """Largest relative difference of each metric over the common epochs."""
    rows: list[Row] = []
    epochs = list(zip(a, b, strict=False))
    for key in epochs[0][0] if epochs else ():
        differences = [
            (_relative_difference(one[key], two[key]), number, one[key], two[key])
            for number, (one, two) in enumerate(epochs)
            if key in two
        ]
        if differences:
            most, number, one, two = max(differences, key=lambda found: found[0])
            what = f"{key}, largest relative difference (epoch {number})"
            rows.append((what, _shown(one), _shown(two), f"{most:.1e}"))
    return rows


def _relative_difference(one: float, two: float) -> float:
    """Difference of *two* from *one*, by the size of *one*; infinite if one alone is NaN."""
    if math.isnan(one) or math.isnan(two):
        return 0.0 if math.isnan(one) and math.isnan(two) else math.inf
    return abs(two - one) / (abs(one) or 1.0)


def _time_lost(run: Run) -> float:
    spans = sorted(
        (fault["time_s"], fault["time_s"] + fault["to_next_step_s"])
        for fault in run.faults
        if fault["to_next_step_s"] is not None
    )
    lost, until = 0.0, 0.0
    for begin, end in spans:
        lost += max(0.0, end - max(begin, until))
        until = max(until, end)
    return lost


def _row(name: str, a: Any, b: Any) -> Row:
    numbers = isinstance(a, int | float) and isinstance(b, int | float)
    difference = f"{b - a:+.6g}" if numbers else ""
    return name, _shown(a), _shown(b), difference


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
