"""The screen of a run: tables from its view and its surroundings. Pure."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from matex.records.event_shape import is_number
from matex.top.curve_table import curve_table
from matex.top.processes import Processes, none_left
from matex.top.quantities import duration, milliseconds
from matex.top.rank_table import chosen, left_out, rank_table
from matex.top.rank_view import RankState, RankView, slowest
from matex.top.run_view import RunView
from matex.top.sparkline import BLOCKS

__all__ = ["Surroundings", "screen"]

_METRICS = 8
_NEWS = 10
_LEAST_RANKS = 3


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """Facts about a run that its events do not contain.

    Args:
        name: name of the report directory.
        now_s: Unix time now.
        silent_s: seconds since the run was last heard of.
        step: number of steps done by its heartbeat; -1 without one.
        summary: summary of the run; empty before its end.
        processes: processes of the run on this host.
    """

    name: str
    now_s: float
    silent_s: float = 0.0
    step: int = -1
    summary: dict[str, Any] = field(default_factory=dict)
    processes: Processes = field(default_factory=Processes)


def screen(
    view: RunView,
    around: Surroundings,
    *,
    height: int | None = None,
    width: int | None = None,
    signs: str = BLOCKS,
) -> RenderableType:
    """The screen.

    Args:
        view: the run, by its events.
        around: facts that events do not contain.
        height: number of available lines; all ranks are shown by default.
        width: number of characters in a line; tables are as wide as they need by default.
        signs: characters of curves, from the least value to the greatest.
    """
    facts = _facts(view, around)
    curves = _curves(view)
    notes = _notes(view, around)
    news = list(view.news)[-_NEWS:]
    ranks = [view.ranks[rank] for rank in sorted(view.ranks)]
    shown: Sequence[RankView] = ranks
    if height is not None:
        # One line above the ranks, and blank lines between five parts.
        others = len(facts) + len(curves) + len(notes) + 5
        news = news[-max(2, height - others - min(len(ranks), 2 * _LEAST_RANKS)) :]
        shown = chosen(ranks, max(_LEAST_RANKS, height - others - len(news)))
    parts: list[RenderableType] = [*_pairs(facts)]
    if curves:
        parts += ["", curve_table(curves, signs, width=width)]
    if ranks:
        parts += ["", rank_table(shown, ranks, around.processes, width=width)]
    if len(shown) < len(ranks):
        notes = [Text(left_out(ranks, shown)), *notes]
    parts += notes
    if news:
        lines = [(time.strftime("%H:%M:%S", time.localtime(n.time_s)), n.text) for n in news]
        parts += ["", *_pairs(lines)]
    for part in parts:
        if isinstance(part, Text):  # in a log lines are whole, however long
            part.overflow = "ignore" if height is None else "ellipsis"
    return Group(*parts)


def _facts(view: RunView, around: Surroundings) -> list[tuple[str, str]]:
    summary = _numbers(around.summary) if view.is_over else {}
    size = f"{view.world_size} of {view.wanted_size} rank{'s' * (view.wanted_size != 1)}"
    is_gone = not view.is_over and none_left(view.ranks.values(), around.processes)
    run = "gone" if is_gone else view.status
    run += f" with {size}" if view.ranks and not is_gone else ""
    if view.newest_s is not None:
        seconds = view.seconds_until(view.newest_s if view.is_over else around.now_s)
        seconds = summary.get("wall_s", seconds)
        run += f", {'took' if view.is_over else 'for'} {duration(seconds)}"
    if view.starts > 1:
        run += f", start {view.starts}"
    facts = [("run", run), ("report", around.name)]
    step = max(view.step, around.step) if view.status == "training" else view.step
    step = summary.get("steps", step)
    facts.append(("step", f"{step:,}{_epoch(view, step)}"))
    speed = []
    if view.samples_per_s is not None:
        speed.append(f"{view.samples_per_s:,.0f} samples/s")
    step_s = summary.get("step_s", view.step_s)
    if step_s is not None:
        exchange_s = summary.get("exchange_s", view.exchange_s)
        speed.append(f"step {milliseconds(step_s)} ms, exchange {milliseconds(exchange_s)} ms")
    facts += [("speed", ", ".join(speed))] if speed else []
    facts.append(("samples", f"{summary.get('samples_used', view.samples):,}"))
    saved = view.checkpoint
    if saved is not None:
        age = duration(around.now_s - saved["time_s"])
        facts.append(("checkpoint", f"step {saved['step']:,}, {age} old ({saved['tier']})"))
    if view.is_over:
        facts.append(("ended", f"{duration(around.silent_s)} ago"))
        return facts
    if view.ends_s is not None:
        left_s = view.ends_s - around.now_s
        facts.append(("wall time", f"{duration(left_s)} left" if left_s > 0 else "over"))
    facts.append(("heard", f"{duration(around.silent_s)} ago"))
    return facts


def _numbers(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of *summary* that are finite numbers, whatever a damaged file holds."""
    found = {name: value for name, value in summary.items() if is_number(value)}
    return {name: value for name, value in found.items() if math.isfinite(value)}


def _epoch(view: RunView, step: int) -> str:
    fit = view.fit
    if fit is None:
        return ""
    if fit.epoch >= fit.epochs:
        return f", {fit.epochs} of {fit.epochs} epochs done"
    within = f" (step {max(0, step - fit.began):,} of {fit.steps:,})" if fit.steps else ""
    return f", epoch {fit.epoch + 1} of {fit.epochs}{within}"


def _curves(view: RunView) -> list[tuple[str, list[float]]]:
    """Loss, then Keras's logs of each epoch."""
    loss = [("loss", view.loss)] if view.loss else []
    others = [(name, values) for name, values in view.metrics.items() if name != "loss"]
    return (loss + others)[:_METRICS]


def _notes(view: RunView, around: Surroundings) -> list[Text]:
    notes = []
    if not view.is_over:
        last = slowest(v for v in view.ranks.values() if v.state is RankState.TRAINING)
        if last is not None:
            computes = f"which computes {milliseconds(last.busy_s)} ms a step"
            notes.append(_line(f"the others wait for rank {last.rank}, {computes}"))
        if none_left(view.ranks.values(), around.processes):
            notes.append(_line("none of its processes is left on this host", "red"))
    dead = [v for v in view.ranks.values() if v.state is RankState.DEAD and v.why]
    notes += [_line(f"rank {v.rank} died: {v.why}", "red") for v in dead[-_LEAST_RANKS:]]
    return notes


def _line(text: str, style: str = "") -> Text:
    return Text(text, style=style, no_wrap=True)


def _pairs(rows: Sequence[tuple[str, str]]) -> list[Text]:
    """Lines of a name and a text each."""
    width = max(len(name) for name, _ in rows)
    return [
        Text.assemble((name.ljust(width), "bold"), "  ", text, no_wrap=True) for name, text in rows
    ]
