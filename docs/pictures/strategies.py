"""The tree of questions that leads to a strategy."""

from __future__ import annotations

from docs.pictures.svg import Drawing

__all__ = ["draw"]

# question, what leads to the answer at its right, and that answer
_QUESTIONS = (
    ("Do the gradients travel in less time than a step takes?", "yes, or one host",
     "--strategy sync", "exact on any number of ranks"),
    ("Do nodes of several ranks hang on a slow network?", "yes",
     "--strategy daso", "or easgd --asynchronous --two-level, which sends less"),
    ("Does one whole model travel in less time than a step?", "yes, many ranks",
     "--strategy gossip", "a step's messages do not grow with the ranks"),
)  # fmt: skip
_REST = (
    ("--strategy downpour", "most progress an epoch; an optimizer of your choice"),
    ("--strategy easgd", "fewest messages; --asynchronous where ranks must not wait"),
)


def draw() -> Drawing:
    """Questions on the left, answers on the right."""
    drawing = Drawing(760, 410, "Which strategy to choose")
    y = 14.0
    for question, answer, name, note in _QUESTIONS:
        drawing.box(14, y, 370, 48)
        drawing.text(26, y + 29, question, size=12.5)
        drawing.line([(384, y + 24), (490, y + 24)], colour="green", arrow=True)
        drawing.text(437, y + 17, answer, size=11, anchor="middle", colour="green")
        _answer(drawing, y, name, note)
        drawing.line([(199, y + 49), (199, y + 84)], arrow=True)
        drawing.text(207, y + 71, "no", size=11, style="soft")
        y += 86
    drawing.box(14, y, 370, 48)
    drawing.text(26, y + 29, "Every exchange is expensive. Which counts more?", size=12.5)
    for number, (name, note) in enumerate(_REST):
        top = y + 72 * number
        drawing.line([(384, y + 24), (437, y + 24), (437, top + 24), (490, top + 24)],
                     colour="green", arrow=True)  # fmt: skip
        _answer(drawing, top, name, note)
    return drawing


def _answer(drawing: Drawing, y: float, name: str, note: str) -> None:
    drawing.box(492, y, 254, 48, edge="green")
    drawing.text(504, y + 20, name, style="mono bold", size=12.5)
    words, lines = note.split(), [""]
    for word in words:
        if len(lines[-1]) + len(word) > 43 and len(lines) < 2:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    for number, line in enumerate(lines):
        drawing.text(504, y + 34 + 11 * number, line, size=9.5, style="soft")
