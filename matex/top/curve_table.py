"""The table of losses and metrics: newest value and curve of each. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from matex.top.quantities import number
from matex.top.sparkline import sparkline

__all__ = ["ColumnWidths", "column_widths", "curve_table"]

# All in characters.
_GAP = 2
_CURVE = 40
_LEAST_CURVE = 8
_LEAST_NAME = 8


class ColumnWidths(NamedTuple):
    """Widths of the columns beside the values; a curve without width is left out."""

    name: int
    curve: int


def column_widths(name: int, value: int, curve: int, width: int | None) -> ColumnWidths:
    """Widths for a name and a curve that would be so wide, and a value that always is.

    Where *width* is not enough the curve becomes shorter first, then the name is cut.

    Args:
        name: width of the longest name.
        value: width of the longest value.
        curve: width of the longest curve.
        width: width of the terminal; None without a limit.
    """
    if width is None:
        return ColumnWidths(name, curve)
    left = width - value - 2 * _GAP
    shorter = max(min(curve, _LEAST_CURVE), min(curve, left - name))
    if left - shorter >= min(name, _LEAST_NAME):
        return ColumnWidths(min(name, left - shorter), shorter)
    return ColumnWidths(max(1, min(name, left + _GAP)), 0)


def curve_table(
    curves: Sequence[tuple[str, Sequence[float]]], signs: str, *, width: int | None = None
) -> Table:
    """The table of *curves*, each with its name.

    Args:
        curves: names and values in order of time.
        signs: characters of a curve, from the least value to the greatest.
        width: width of the terminal; None without a limit.
    """
    newest = [number(values[-1]) for _, values in curves]
    widths = column_widths(
        max(cell_len(name) for name, _ in curves),
        max(map(len, newest)),
        min(_CURVE, max(len(values) for _, values in curves)),
        width,
    )
    table = Table.grid(padding=(0, _GAP))
    table.add_column(style="bold", no_wrap=True, overflow="ellipsis")
    table.add_column(justify="right", no_wrap=True)
    if widths.curve:
        table.add_column(style="blue", no_wrap=True, overflow="crop")
    for (name, values), value in zip(curves, newest, strict=True):
        shown = Text(name)
        shown.truncate(widths.name, overflow="ellipsis")
        curve = [Text(sparkline(values, widths.curve, signs=signs))] if widths.curve else []
        table.add_row(shown, value, *curve)
    return table
