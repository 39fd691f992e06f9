"""The text of ``matex doctor --network``. Pure."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

from matex.network.advice import advice
from matex.network.figures import Installation, PairFigures, slowest
from matex.network.placement import MOST_IN_FULL, Placement
from matex.network.predictions import FLOAT_BYTES, forecasts
from matex.network.units import bytes_text, rate_text, time_text

__all__ = ["WHAT_TO_SET", "text"]

#: The heading of the last part, by which a launcher knows that all was measured.
WHAT_TO_SET = "what to set"

_WIDTH = 96
_BEFORE_UNIT = re.compile(r"(?<=\d) (?=[kMG]?B|m?s\b)")
_NO_BREAK = "\N{NO-BREAK SPACE}"


def text(
    figures: Sequence[PairFigures],
    placement: Placement,
    installation: Installation,
    *,
    parameters: int,
) -> str:
    """The whole report: pairs, cost of an exchange by each plan, and settings.

    Args:
        figures: figures of each measured pair.
        placement: ranks of the launch, on two hosts or more.
        installation: library, settings and interfaces.
        parameters: number of parameters of the model that is asked about.
    """
    last = slowest(figures)
    costs = forecasts(parameters, placement, bandwidth=last.both, latency_s=last.latency_s)
    ulfm = "with ULFM" if installation.ulfm else "without ULFM"
    few = len(placement.hosts) <= MOST_IN_FULL
    which = "each pair of hosts" if few else "each host and the next, in a ring"
    vector = bytes_text(FLOAT_BYTES * parameters)
    lines = [
        f"{placement.text()}, {installation.library} {ulfm}",
        "",
        f"{which}, by one rank of each",
        *_columns(
            [("hosts", "latency", "there", "back", "both at once, each way")]
            + [
                (
                    pair.name,
                    time_text(pair.latency_s),
                    *map(rate_text, (pair.there, pair.back, pair.both)),
                )
                for pair in figures
            ]
        ),
        "",
        f"one exchange of {parameters:,} parameters ({vector} in float32), "
        f"at the speed of {last.name}",
        *_columns(
            [("plan", "format", "out of a host", "time between hosts")]
            + [
                (cost.plan, cost.format, bytes_text(cost.bytes_out), time_text(cost.time_s))
                for cost in costs
            ]
        ),
        "",
        WHAT_TO_SET,
    ]
    for line in advice(figures, placement, costs, installation) or ["nothing"]:
        lines += _item(line)
    return "\n".join(lines)


def _item(text: str) -> list[str]:
    """The lines of an item of a list, none of which begins with the unit of a number."""
    wrapped = textwrap.wrap(
        "- " + _BEFORE_UNIT.sub(_NO_BREAK, text),
        _WIDTH,
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace(_NO_BREAK, " ") for line in wrapped]


def _columns(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Lines of a table, with two spaces between columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
