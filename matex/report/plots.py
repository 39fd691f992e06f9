"""The pictures of a report, as PNG. The only module that imports matplotlib."""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable, Mapping
from typing import Any

from matex.errors import InputError
from matex.report.html import Picture
from matex.report.reading import Run

__all__ = ["compared", "labelled", "pictures"]

_BLUE, _ORANGE, _GREEN, _RED, _GREY = "#4c86bf", "#ee7733", "#2a9d46", "#dd4422", "#a5a5a5"
_COLORS = (_BLUE, _ORANGE, _GREEN, _RED, "#9467bd", "#17a2b8", "#b8860b", _GREY)
# Inches, and dots per inch. The narrow ones fill a telephone's screen, which has small dots.
_SIZES = {"": (9.0, 110), "narrow_": (4.2, 200)}
# Colours of text and ground.
_SCHEMES = {"light": ("#222222", "#ffffff"), "dark": ("#dddddd", "#181a1b")}

#: Draws on the figure, whose height is in inches.
Drawing = tuple[float, Callable[[Any], None]]


def pictures(run: Run) -> dict[str, Picture]:
    """File name -> picture: the loss and the world, the ranks, throughput and exchange.

    Raises:
        InputError: matplotlib is missing.
    """

    def over_time(draw: Callable[[Run, Any], None]) -> Callable[[Any], None]:
        def drawn(figure: Any) -> None:
            draw(run, figure)
            for axes in figure.axes:
                axes.set_xlim(0, max(run.ended, 1e-3))
            figure.axes[-1].set_xlabel("seconds")

        return drawn

    wanted: dict[str, Drawing] = {
        "loss.png": (5.0, over_time(_loss)),
        "ranks.png": (1.2 + 0.28 * len({life.rank for life in run.lives()}), over_time(_ranks)),
        "throughput.png": (4.5, over_time(_throughput)),
    }
    if run.shrinkings():
        wanted["apoptosis.png"] = 4.5, over_time(_apoptosis)
    return {name: _drawn(*drawing) for name, drawing in wanted.items()}


def compared(runs: Mapping[str, Run]) -> dict[str, Picture]:
    """Pictures of *runs*, by file name: loss of each epoch, and throughput.

    Raises:
        InputError: matplotlib is missing.
    """
    return {
        "losses.png": _drawn(4.5, lambda figure: _losses(runs, figure)),
        "throughputs.png": _drawn(3.5, lambda figure: _throughputs(runs, figure)),
    }


def _drawn(height: float, draw: Callable[[Any], None]) -> Picture:
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise InputError(
            "matplotlib was not found: install it with pip install 'matex[report]'"
        ) from None
    made: dict[str, bytes] = {}
    for (size, (width, dpi)), (scheme, (text, ground)) in itertools.product(
        _SIZES.items(), _SCHEMES.items()
    ):
        of_text = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")
        grounds = ("figure.facecolor", "axes.facecolor", "savefig.facecolor")
        with matplotlib.rc_context(
            {**dict.fromkeys(of_text, text), **dict.fromkeys(grounds, ground)}
        ):
            figure = Figure(figsize=(width, height), layout="constrained")
            draw(figure)
            for axes in figure.axes:
                axes.spines[["top", "right"]].set_visible(False)
            file = io.BytesIO()
            figure.savefig(file, format="png", dpi=dpi)
        made[size + scheme] = file.getvalue()
    return Picture(**made)


def _loss(run: Run, figure: Any) -> None:
    loss, world = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    for curve in run.curves("loss"):
        marker = "." if len(curve.values) == 1 else ""
        loss.plot(curve.seconds, curve.values, color=_BLUE, linewidth=1.2, marker=marker)
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
        color = _GREY if life.lost or life.left else _BLUE
        axes.barh(life.rank, life.end - life.begin, left=life.begin, height=0.6, color=color)
    for fault in run.faults:
        at, rank = fault["time_s"] - run.started, fault["rank"]
        if rank is None:  # all of them
            axes.axvline(at, color=_RED, linewidth=0.9, linestyle="--")
            rank = max((life.rank for life in lives), default=0)
        else:
            axes.plot(at, rank, marker="x", color=_RED, markersize=7, markeredgewidth=2)
        axes.annotate(
            fault["kind"], (at, rank), xytext=(7, -3), textcoords="offset points",
            fontsize=8, color=_RED,
        )  # fmt: skip
    axes.set_yticks(sorted({life.rank for life in lives}))
    axes.invert_yaxis()
    axes.set_ylabel("rank")


def _throughput(run: Run, figure: Any) -> None:
    above, below = figure.subplots(2, 1, sharex=True)
    for curve in run.throughput():
        above.plot(curve.seconds, curve.values, color=_BLUE, linewidth=1.0)
    above.set_ylabel("samples / s")
    above.set_ylim(bottom=0)
    for name, label, color in (
        ("step_s", "step", _BLUE),
        ("exchange_s", "of it, exchange", _ORANGE),
    ):
        for number, curve in enumerate(run.curve(name, scale=1e3)):
            told = label if not number else None
            below.plot(curve.seconds, curve.values, color=color, linewidth=1.0, label=told)
    below.set_ylabel("ms")
    below.set_ylim(bottom=0)
    _cut_first_steps(run, below)
    below.legend(frameon=False, fontsize=8)
    for axes in (above, below):
        _mark_faults(run, axes)


def _cut_first_steps(run: Run, axes: Any) -> None:
    """Leave first steps, which include tracing, out of the scale; note that if they exceed it."""
    largest = run.largest_of_ready_steps("step_s", scale=1e3)
    curves = run.curve("step_s", scale=1e3)
    points = [point for curve in curves for point in zip(curve.values, curve.seconds, strict=True)]
    if largest is None or largest <= 0 or max(points)[0] <= 1.2 * largest:
        return
    axes.set_ylim(top=1.2 * largest)
    most, at = max(points)
    axes.annotate(
        f"first steps, up to {most:.4g} ms", (at, 1), xycoords=("data", "axes fraction"),
        xytext=(6, -4), textcoords="offset points", va="top", fontsize=8,
    )  # fmt: skip


def _losses(runs: Mapping[str, Run], figure: Any) -> None:
    axes = figure.subplots()
    for (name, run), color in zip(runs.items(), itertools.cycle(_COLORS), strict=False):
        for metric, style in (("loss", "-"), ("val_loss", "--")):
            values = [
                (n, epoch[metric]) for n, epoch in enumerate(run.epochs(), 1) if metric in epoch
            ]
            if values:
                label = labelled(name if metric == "loss" else f"{name}, validation")
                axes.plot(*zip(*values, strict=True), style, color=color, marker=".", label=label)
    axes.set_ylabel("loss")
    axes.set_xlabel("epoch")
    axes.xaxis.get_major_locator().set_params(integer=True)
    if axes.lines:
        axes.legend(frameon=False, fontsize=8)


def _throughputs(runs: Mapping[str, Run], figure: Any) -> None:
    axes = figure.subplots()
    for (name, run), color in zip(runs.items(), itertools.cycle(_COLORS), strict=False):
        for number, curve in enumerate(run.throughput()):
            told = labelled(name) if not number else None
            axes.plot(curve.seconds, curve.values, color=color, linewidth=1.0, label=told)
    axes.set_ylabel("samples / s")
    axes.set_xlabel("seconds")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, fontsize=8)


def _apoptosis(run: Run, figure: Any) -> None:
    above, below = figure.subplots(2, 1, sharex=True)
    events = run.shrinkings()
    at = [0.0, *(event["time_s"] - run.started for event in events), run.ended]
    parameters = [events[0]["parameters_before"], *(event["parameters"] for event in events)]
    above.step(at, [*parameters, parameters[-1]], where="post", color=_GREEN)
    above.set_ylabel("parameters")
    above.set_yscale("log")
    for layer, curve in run.widths().items():
        below.step(curve.seconds, curve.values, where="post", linewidth=1.0, label=labelled(layer))
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
                _named(fault), (at, 1), xycoords=("data", "axes fraction"),
                xytext=(3, -4), textcoords="offset points", rotation=90, va="top",
                fontsize=8, color=_RED,
            )  # fmt: skip


def _named(fault: Mapping[str, Any]) -> str:
    """Kind of *fault* and its rank, if it was one rank's."""
    return fault["kind"] if fault["rank"] is None else f"{fault['kind']} {fault['rank']}"


def labelled(name: str) -> str:
    """Label that matplotlib shows as *name*: no formula, and not left out for its _."""
    shown = name.replace("$", r"\$")
    return f" {shown}" if shown.startswith("_") else shown
