"""A flow drawn as boxes one below the other: what happens, and in which file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from docs.pictures.svg import Drawing

__all__ = ["Stage", "draw"]


class Stage(NamedTuple):
    """One box.

    Args:
        what: one line of what happens.
        files: where, as paths from the root of the repository.
        kind: "" for work of this rank, "all" for a collective, "fence" for a line that nothing
            passes before all above it is done; a fence names no files.
    """

    what: str
    files: tuple[str, ...] = ()
    kind: str = ""


WIDTH = 760
_BOX, _GAP, _FENCE = 48, 20, 26


def draw(title: str, stages: Sequence[Stage]) -> Drawing:
    """The picture of *stages*, the first on top."""
    heights = [_FENCE if s.kind == "fence" else _BOX + 16 * (len(s.files) > 1) for s in stages]
    height = sum(heights) + _GAP * (len(stages) - 1) + 24
    drawing = Drawing(WIDTH, height, title)
    y = 12.0
    for number, (stage, own) in enumerate(zip(stages, heights, strict=True)):
        if number:
            drawing.line([(WIDTH / 2, y - _GAP + 1), (WIDTH / 2, y - 2)], arrow=True)
        if stage.kind == "fence":
            drawing.line([(30, y + own / 2), (WIDTH - 30, y + own / 2)], colour="red", dashed=True)
            drawing.box(WIDTH / 2 - 230, y, 460, own, fill="tint", edge="red")
            drawing.text(WIDTH / 2, y + 18, stage.what, anchor="middle", colour="red")
        else:
            _stage(drawing, stage, y, own)
        y += own + _GAP
    return drawing


def _stage(drawing: Drawing, stage: Stage, y: float, height: float) -> None:
    together = stage.kind == "all"
    drawing.box(30, y, WIDTH - 60, height, edge="green" if together else "edge")
    drawing.text(44, y + 20, stage.what, style="bold")
    if together:
        drawing.text(WIDTH - 42, y + 20, "all ranks", anchor="end", size=12, colour="green")
    lines = [stage.files] if len(stage.files) < 2 else [stage.files[:1], stage.files[1:]]
    for number, files in enumerate(lines):
        drawing.text(44, y + 38 + 16 * number, "   ".join(files), size=12, style="mono soft")
