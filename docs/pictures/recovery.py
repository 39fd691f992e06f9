"""The sequence diagram of a recovery: a rank dies inside an exchange."""

from __future__ import annotations

from docs.pictures.svg import Drawing

__all__ = ["draw"]

_NAMES = ("rank 0", "rank 1", "rank 2", "rank 3")
_X = (210, 370, 530, 690)
_DEAD = 2


def draw() -> Drawing:
    """Time runs down; rank 2 dies; rank 0 had completed operation k or had not."""
    drawing = Drawing(760, 640, "How four ranks recover when one dies inside operation k")
    for number, (name, x) in enumerate(zip(_NAMES, _X, strict=True)):
        drawing.box(x - 40, 14, 80, 28)
        drawing.text(x, 33, name, anchor="middle", style="bold")
        end = 118 if number == _DEAD else 622
        drawing.line([(x, 42), (x, end)])
    drawing.cross(_X[_DEAD], 118)
    _together(drawing, 66, "allreduce k", "out of place; inputs are kept", every=True)
    drawing.text(16, 122, "rank 2 dies in k", size=12, colour="red")
    _alone(drawing, 142, 3, "MPI error", "the first survivor notices")
    _spread(drawing, 180, 3, "revoke", "interrupts k on all others")
    _together(drawing, 226, "shrink", "a communicator of the living")
    _together(drawing, 270, "agree", "all have left shrink")
    _together(drawing, 314, "allgather", "settle: who is here, who has k")
    _alone(drawing, 356, 0, "may we go on?", "settle: quorum, or the launcher")
    drawing.box(8, 386, 744, 52, fill="paper", edge="amber")
    drawing.text(16, 404, "settle: if any has k", size=12, colour="amber")
    _spread(drawing, 416, 0, "broadcast its result", "with rank 2's rows in it")
    _together(drawing, 462, "agree", "all have settled, else revoke")
    drawing.box(8, 498, 744, 70, fill="paper", edge="green")
    drawing.text(16, 516, "if none has k", size=12, colour="green")
    for number in (0, 1, 3):
        drawing.box(_X[number] - 50, 504, 100, 20, fill="box", edge="green", radius=3)
        drawing.text(_X[number], 518, "⅓ of 2's rows", size=11, anchor="middle")
    _together(drawing, 540, "allreduce k again", "with what was recomputed")
    for number in (0, 1, 3):
        drawing.box(_X[number] - 40, 584, 80, 22, edge="blue", radius=3)
        drawing.text(_X[number], 599, "update", size=12, anchor="middle")
    drawing.text(16, 599, "once, equal bits", size=12, style="soft")
    return drawing


def _together(drawing: Drawing, y: float, name: str, note: str, *, every: bool = False) -> None:
    """A collective: a bar over those that take part."""
    members = [n for n in range(4) if every or n != _DEAD]
    drawing.line([(_X[members[0]], y), (_X[members[-1]], y)], colour="blue", width=2)
    for number in members:
        drawing.dot(_X[number], y, colour="blue", radius=5)
    drawing.text(16, y - 2, name, size=12.5, style="bold")
    drawing.text(16, y + 12, note, size=10, style="soft")


def _alone(drawing: Drawing, y: float, rank: int, name: str, note: str) -> None:
    drawing.dot(_X[rank], y, colour="red" if rank == 3 else "amber", radius=6)
    drawing.text(16, y - 2, name, size=12.5, style="bold")
    drawing.text(16, y + 12, note, size=10, style="soft")


def _spread(drawing: Drawing, y: float, source: int, name: str, note: str) -> None:
    """One rank reaches the other living ones."""
    others = [n for n in range(4) if n not in (_DEAD, source)]
    for number, other in enumerate(others):
        drawing.line([(_X[source], y + 8 * number - 4), (_X[other], y + 8 * number)],
                     colour="amber", arrow=True)  # fmt: skip
    drawing.text(16, y - 2 + 6, name, size=12.5, style="bold")
    drawing.text(16, y + 18, note, size=10, style="soft")
