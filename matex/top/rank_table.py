"""The table of the ranks of a run. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from rich.cells import cell_len
from rich.console import JustifyMethod
from rich.table import Table
from rich.text import Text

from matex.top.processes import Processes
from matex.top.quantities import bytes_in_words, milliseconds
from matex.top.rank_view import RankState, RankView

__all__ = ["chosen", "columns", "left_out", "rank_table"]

_STYLES = {
    RankState.TRAINING: "green",
    RankState.SPARE: "cyan",
    RankState.DEAD: "red",
    RankState.GONE: "red",
    RankState.FAILED: "red",
    RankState.STOPPED: "yellow",
}


_COLUMNS = ("rank", "host", "state", "step", "step ms", "exchange ms", "waits ms", "memory")
# Columns that are left out where a terminal is narrow, in this order.
_LEFT_OUT = ("waits ms", "exchange ms", "memory", "step ms", "step")
_GAP = 2  # characters
_LEAST_HOST = 12  # characters of a host's name, for which no other column is left out


def rank_table(
    shown: Sequence[RankView],
    ranks: Sequence[RankView],
    processes: Processes,
    *,
    width: int | None = None,
) -> Table:
    """The table of the ranks that are *shown*, out of all *ranks*.

    Args:
        shown: ranks that have a line.
        ranks: all ranks.
        processes: processes of the run on this host.
        width: width of the terminal; None without a limit.
    """
    shortest_s = _shortest_exchange(ranks)
    rows = [_row(view, processes, shortest_s) for view in shown]
    widths = {
        name: max([cell_len(name), *(row[name].cell_len for row in rows)]) for name in _COLUMNS
    }
    names, host = columns(widths, width)
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    for name in names:
        justify: JustifyMethod = "left" if name in ("host", "state") else "right"
        table.add_column(name, justify=justify, no_wrap=True, overflow="ellipsis")
    for row in rows:
        row["host"].truncate(host, overflow="ellipsis")
        table.add_row(*(row[name] for name in names))
    return table


def columns(widths: Mapping[str, int], width: int | None) -> tuple[list[str], int]:
    """Names of the columns for which there is room, and the room of hosts' names.

    Args:
        widths: width of each column.
        width: width of the terminal; None without a limit.
    """
    names = list(widths)
    if width is None:
        return names, widths["host"]
    least = min(widths["host"], _LEAST_HOST)
    for name in _LEFT_OUT:
        if _host_room(names, widths, width) >= least:
            break
        names.remove(name)
    return names, max(len("host"), min(widths["host"], _host_room(names, widths, width)))


def _host_room(names: Sequence[str], widths: Mapping[str, int], width: int) -> int:
    others = sum(widths[name] + _GAP for name in names if name != "host")
    return width - others


def _row(view: RankView, processes: Processes, shortest_s: float) -> dict[str, Text]:
    """Cells of a rank, by the names of their columns."""
    state = view.state
    if state.lives and view.rank in processes.gone:
        state = RankState.GONE
    cells = (
        str(view.rank),
        view.host,
        state.value,
        "" if view.step is None else f"{view.step:,}",
        *(_times(view, shortest_s) if not state.is_away else ("", "", "")),
        bytes_in_words(_memory(view, processes)),
    )
    row = {name: Text(cell) for name, cell in zip(_COLUMNS, cells, strict=True)}
    row["state"].stylize(_STYLES.get(state, ""))
    return row


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


def chosen(ranks: Sequence[RankView], limit: int) -> Sequence[RankView]:
    """Ranks to show if there is room for *limit*, in order.

    Ranks that do not train come first, then the slowest.
    """
    if len(ranks) <= limit:
        return ranks
    first = sorted(ranks, key=lambda v: (v.state is RankState.TRAINING, -(v.busy_s or 0.0), v.rank))
    kept = {view.rank for view in first[:limit]}
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
