"""Two runs side by side: what the faults of one cost, given the other as its twin. Pure."""

from __future__ import annotations

from typing import Any

from matex.report.reading import Run

__all__ = ["compare"]

_COUNTS = (
    *("status", "world_size_start", "world_size_end", "restarts", "epochs", "steps"),
    *("samples_expected", "samples_used", "samples_lost", "samples_repeated"),
)
_TIMES = ("wall_s", "step_s", "exchange_s")

Row = tuple[str, str, str, str]


def compare(a: Run, b: Run) -> list[Row]:
    """Rows of (what, of A, of B, B less A), all to be printed.

    ``time lost`` sums, over the recoveries, what passed from a fault to the next finished step:
    faults whose recoveries overlap count once.
    """
    rows: list[Row] = [("", "A", "B", "B - A")]
    for key in _COUNTS:
        rows.append(_row(key, a.summary.get(key), b.summary.get(key)))
    for key in _TIMES:
        rows.append(_row(key, a.summary.get(key), b.summary.get(key)))
    rows.append(_row("time lost to faults, s", _time_lost(a), _time_lost(b)))
    rows.append(_row("ranks lost", *(sum(life.lost for life in run.lives()) for run in (a, b))))
    metrics = [run.summary.get("metrics", {}) for run in (a, b)]
    for key in metrics[0] | metrics[1]:
        rows.append(_row(f"{key}, last epoch", metrics[0].get(key), metrics[1].get(key)))
    rows += _largest(a.epochs(), b.epochs())
    hashes = [set(run.summary.get("weights_hash", {}).values()) for run in (a, b)]
    same = "same bits" if hashes[0] == hashes[1] and len(hashes[0]) == 1 else "not the same bits"
    mine, theirs = (" ".join(sorted(h)) or "-" for h in hashes)
    rows.append(("weights", mine, theirs, same))
    return rows


def _largest(a: list[dict[str, float]], b: list[dict[str, float]]) -> list[Row]:
    """The largest relative difference of each metric over the epochs that both have."""
    rows: list[Row] = []
    epochs = list(zip(a, b, strict=False))
    for key in epochs[0][0] if epochs else ():
        differences = [
            (abs(two[key] - one[key]) / (abs(one[key]) or 1.0), number, one[key], two[key])
            for number, (one, two) in enumerate(epochs)
            if key in two
        ]
        if differences:
            most, number, one, two = max(differences)
            what = f"{key}, largest relative difference (epoch {number})"
            rows.append((what, _shown(one), _shown(two), f"{most:.1e}"))
    return rows


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
