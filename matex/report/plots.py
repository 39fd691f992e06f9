"""The pictures of a report, as PNG. The only module that imports matplotlib."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

from matex.errors import InputError
from matex.report.reading import Run

__all__ = ["pictures"]

_BLUE, _ORANGE, _GREEN, _RED, _GREY = "#4477aa", "#ee7733", "#228833", "#cc3311", "#bbbbbb"
_WIDTH, _DPI = 9.0, 110


def pictures(run: Run) -> dict[str, bytes]:
    """File name -> PNG: the loss and the world, the ranks, throughput and exchange.

    Raises:
        InputError: there is no matplotlib.
    """
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise InputError(
            "matplotlib was not found: install it with pip install 'matex[report]'"
        ) from None
    made: dict[str, bytes] = {}
    wanted: list[tuple[str, float, Callable[[Run, Any], None]]] = [
        ("loss.png", 5.0, _loss),
        ("ranks.png", 1.2 + 0.28 * len(run.lives()), _ranks),
        ("throughput.png", 4.5, _throughput),
    ]
    if run.shrinkings():
        wanted.append(("apoptosis.png", 4.5, _apoptosis))
    for name, height, draw in wanted:
        figure = Figure(figsize=(_WIDTH, height), layout="constrained")
        draw(run, figure)
        for axes in figure.axes:
            axes.set_xlim(0, max(run.ended, 1e-3))
            axes.spines[["top", "right"]].set_visible(False)
        figure.axes[-1].set_xlabel("seconds")
        file = io.BytesIO()
        figure.savefig(file, format="png", dpi=_DPI)
        made[name] = file.getvalue()
    return made


def _loss(run: Run, figure: Any) -> None:
    loss, world = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    curve = run.curve("loss")
    loss.plot(curve.seconds, curve.values, color=_BLUE, linewidth=1.2)
    loss.set_ylabel("loss of the epoch so far")
    size = run.world_size()
    world.step(size.seconds, size.values, where="post", color=_GREEN)
    world.set_ylabel("ranks")
    world.set_ylim(0, max(size.values) + 1)
    world.yaxis.get_major_locator().set_params(integer=True)
    _mark_faults(run, loss, named=True)
    _mark_faults(run, world)


def _ranks(run: Run, figure: Any) -> None:
    axes = figure.subplots()
    lives = run.lives()
    for life in lives:
        color = _GREY if life.lost else _BLUE
        axes.barh(life.rank, life.end - life.begin, left=life.begin, height=0.6, color=color)
    for fault in run.faults:
        at = fault["time_s"] - run.started
        axes.plot(at, fault["rank"], marker="x", color=_RED, markersize=7, markeredgewidth=2)
        axes.annotate(
            fault["kind"], (at, fault["rank"]), xytext=(7, -3), textcoords="offset points",
            fontsize=8, color=_RED,
        )  # fmt: skip
    axes.set_yticks([life.rank for life in lives])
    axes.invert_yaxis()
    axes.set_ylabel("rank")


def _throughput(run: Run, figure: Any) -> None:
    above, below = figure.subplots(2, 1, sharex=True)
    curve = run.throughput()
    above.plot(curve.seconds, curve.values, color=_BLUE, linewidth=1.0)
    above.set_ylabel("samples / s")
    above.set_ylim(bottom=0)
    for name, label, color in (
        ("step_s", "step", _BLUE),
        ("exchange_s", "of it, exchange", _ORANGE),
    ):
        curve = run.curve(name, scale=1e3)
        below.plot(curve.seconds, curve.values, color=color, linewidth=1.0, label=label)
    below.set_ylabel("ms")
    below.set_ylim(bottom=0)
    below.legend(frameon=False, fontsize=8)
    for axes in (above, below):
        _mark_faults(run, axes)


def _apoptosis(run: Run, figure: Any) -> None:
    above, below = figure.subplots(2, 1, sharex=True)
    events = run.shrinkings()
    at = [0.0, *(event["time_s"] - run.started for event in events), run.ended]
    parameters = [events[0]["parameters_before"], *(event["parameters"] for event in events)]
    above.step(at, [*parameters, parameters[-1]], where="post", color=_GREEN)
    above.set_ylabel("parameters")
    above.set_yscale("log")
    for layer, curve in run.widths().items():
        below.step(curve.seconds, curve.values, where="post", linewidth=1.0, label=layer)
    below.set_ylabel("units")
    below.set_ylim(bottom=0)
    if below.lines:
        below.legend(frameon=False, fontsize=7, ncols=2)


def _mark_faults(run: Run, axes: Any, *, named: bool = False) -> None:
    for fault in run.faults:
        at = fault["time_s"] - run.started
        axes.axvline(at, color=_RED, linewidth=0.9, linestyle="--")
        if named:
            axes.annotate(
                f"{fault['kind']} {fault['rank']}", (at, 1), xycoords=("data", "axes fraction"),
                xytext=(3, -4), textcoords="offset points", rotation=90, va="top",
                fontsize=8, color=_RED,
            )  # fmt: skip
