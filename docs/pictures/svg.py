"""A small writer of SVG, with colours that follow a light or a dark page."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

__all__ = ["DARK_END", "DARK_START", "Drawing"]

# A file by itself follows the reader's system; the site takes the part between the marks out and
# sets the same variables by its own light or dark scheme (docs/assets/site.css).
DARK_START, DARK_END = "/*dark*/", "/*end*/"

_LIGHT = (
    "--ink:#1f2430;--soft:#667085;--line:#98a2b3;--paper:#ffffff;--box:#eef2fb;--edge:#8ea2d8;"
    "--blue:#3451b2;--green:#1a7f4b;--red:#c5303c;--amber:#b26a00;--tint:#fdecec"
)
_DARK = (
    "--ink:#e6e9f2;--soft:#a3abbd;--line:#667085;--paper:#1e2129;--box:#2b3145;--edge:#5d6fa8;"
    "--blue:#8fa6f5;--green:#5fcf95;--red:#ff8088;--amber:#f2b35a;--tint:#46292d"
)
_STYLE = """
.matex-picture{%s}
%s@media (prefers-color-scheme:dark){.matex-picture{%s}}%s
.matex-picture text{font-family:system-ui,"Segoe UI",Roboto,sans-serif;fill:var(--ink)}
.matex-picture .soft{fill:var(--soft)}
.matex-picture .mono{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
.matex-picture .bold{font-weight:600}
"""


class Drawing:
    """Shapes on a page of *width* x *height* units, which are pixels at the picture's own size.

    Args:
        title: what the picture shows, for readers who do not see it.
    """

    def __init__(self, width: int, height: int, title: str) -> None:
        self.width, self.height, self._title = width, height, title
        self._shapes: list[str] = []

    def text(
        self, x: float, y: float, content: str, *, size: float = 13, style: str = "",
        anchor: str = "start", colour: str = "",
    ) -> None:  # fmt: skip
        """One line of text; *style* is any of "soft", "mono", "bold"."""
        fill = f' style="fill:var(--{colour})"' if colour else ""
        self._shapes.append(
            f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" text-anchor="{anchor}" '
            f'class="{style}"{fill}>{escape(content)}</text>'
        )

    def box(
        self, x: float, y: float, width: float, height: float, *, fill: str = "box",
        edge: str = "edge", radius: float = 6,
    ) -> None:  # fmt: skip
        self._shapes.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" '
            f'rx="{radius:g}" style="fill:var(--{fill});stroke:var(--{edge})"/>'
        )

    def line(
        self, points: Iterable[tuple[float, float]], *, colour: str = "line", width: float = 1.5,
        dashed: bool = False, arrow: bool = False,
    ) -> None:  # fmt: skip
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        end = f' marker-end="url(#arrow-{colour})"' if arrow else ""
        self._shapes.append(
            f'<polyline points="{path}" fill="none" stroke-width="{width:g}"{dash}{end} '
            f'style="stroke:var(--{colour})"/>'
        )

    def cross(self, x: float, y: float, *, size: float = 6, colour: str = "red") -> None:
        for sign in (1, -1):
            self.line(
                [(x - size, y - sign * size), (x + size, y + sign * size)], colour=colour, width=3
            )

    def dot(self, x: float, y: float, *, colour: str = "blue", radius: float = 3.5) -> None:
        self._shapes.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" style="fill:var(--{colour})"/>'
        )

    def written(self) -> str:
        """The file's text."""
        style = _STYLE % (_LIGHT, DARK_START, _DARK, DARK_END)
        markers = "".join(
            f'<marker id="arrow-{colour}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" '
            f'markerHeight="7" orient="auto-start-reverse"><path d="M0,0 L10,5 L0,10 z" '
            f'style="fill:var(--{colour})"/></marker>'
            for colour in ("line", "blue", "green", "red", "amber")
        )
        shapes = "\n".join(self._shapes)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="matex-picture" role="img" '
            f'viewBox="0 0 {self.width} {self.height}" width="{self.width}" '
            f'height="{self.height}">\n<title>{escape(self._title)}</title>\n'
            f"<style>{style}</style>\n<defs>{markers}</defs>\n"
            f'<rect width="{self.width}" height="{self.height}" rx="8" '
            f'style="fill:var(--paper)"/>\n{shapes}\n</svg>\n'
        )
