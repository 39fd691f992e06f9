"""The table of the ranks of a run. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from matex.top.processes import Processes
from matex.top.quantities import bytes_in_words, milliseconds
from matex.top.rank_view import RankState, RankView

__all__ = ["chosen", "left_out", "rank_table"]

_STYLES = {
    RankState.TRAINING: "green",
    RankState.SPARE: "cyan",
    RankState.DEAD: "red",
    RankState.GONE: "red",
    RankState.FAILED: "red",
    RankState.STOPPED: "yellow",
}


def rank_table(shown: Sequence[RankView], ranks: Sequence[RankView], processes: Processes) -> Table:
    """The table of the ranks that are *shown*, out of all *ranks*."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("rank", justify="right", no_wrap=True)
    table.add_column("host", no_wrap=True, overflow="ellipsis")
    table.add_column("state", no_wrap=True)
    for heading in ("step", "step ms", "exchange ms", "waits ms", "memory"):
        table.add_column(heading, justify="right", no_wrap=True)
    shortest_s = _shortest_exchange(ranks)
    for view in shown:
        state = view.state
        if state.lives and view.rank in processes.gone:
            state = RankState.GONE
        table.add_row(
            str(view.rank),
            Text(view.host),
            Text(state.value, style=_STYLES.get(state, "")),
            "" if view.step is None else f"{view.step:,}",
            *(_times(view, shortest_s) if not state.is_away else ("", "", "")),
            bytes_in_words(_memory(view, processes)),
        )
    return table


def _times(view: RankView, shortest_s: float) -> tuple[str, str, str]:
    """Milliseconds of a step, of its exchange, and of waiting in the exchange."""
    waits_s = view.waits_s(shortest_s)
    return milliseconds(view.step_s), milliseconds(view.exchange_s), milliseconds(waits_s)


def _memory(view: RankView, processes: Processes) -> int | None:
    """Memory of the rank, bytes, by its process if on this host, else as last reported."""
    return processes.memory.get(view.rank, view.memory if view.state.lives else None)


def _shortest_exchange(ranks: Sequence[RankView]) -> float:
    """Seconds of the exchange on the living rank that waits for no other."""
    told = [v.exchange_s for v in ranks if v.exchange_s is not None]
    living = [v.exchange_s for v in ranks if v.exchange_s is not None and not v.state.is_away]
    return min(living or told, default=0.0)


def chosen(ranks: Sequence[RankView], most: int) -> Sequence[RankView]:
    """Ranks to show if there is room for *most*, in order.

    Ranks that do not train come first, then the slowest.
    """
    if len(ranks) <= most:
        return ranks
    first = sorted(ranks, key=lambda v: (v.state is RankState.TRAINING, -(v.busy_s or 0.0), v.rank))
    kept = {view.rank for view in first[:most]}
    return [view for view in ranks if view.rank in kept]


def left_out(ranks: Sequence[RankView], shown: Sequence[RankView]) -> str:
    """Line about ranks that are not shown, with their usual computing time."""
    known = {view.rank for view in shown}
    others = [view for view in ranks if view.rank not in known]
    counts = [
        f"{count} {state.value}"
        for state in RankState
        if (count := sum(view.state is state for view in others))
    ]
    busy = [view.busy_s for view in others if view.busy_s is not None]
    usual = f", {milliseconds(statistics.median(busy))} ms to compute" if busy else ""
    return f"and {len(others)} more: {', '.join(counts)}{usual}"
