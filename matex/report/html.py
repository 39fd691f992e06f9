"""HTML of self-contained pages, for light and dark, wide and narrow screens.

All text is escaped here. Pure.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple

__all__ = ["Picture", "document", "figure", "table"]

_NARROW = "max-width: 45em"
_DARK = "prefers-color-scheme: dark"

_STYLE = """
:root { color-scheme: light dark; --text: #222; --page: #fff; --quiet: #555; --line: #ddd }
@media (prefers-color-scheme: dark) {
  :root { --text: #ddd; --page: #181a1b; --quiet: #aaa; --line: #3a3d3f }
}
body { font: 15px/1.45 system-ui, sans-serif; max-width: 74em; margin: 2em auto; padding: 0 1em;
       color: var(--text); background: var(--page) }
h1 { font-size: 1.5em } h2 { font-size: 1.15em; margin-top: 2em }
a { color: inherit }
table { border-collapse: collapse; max-width: 100% } img { max-width: 100%; height: auto }
th, td { padding: .2em .8em .2em 0; text-align: right; border-bottom: 1px solid var(--line) }
.plain td { overflow-wrap: anywhere } .plain td:first-child { white-space: nowrap }
.wide { overflow-x: auto }
th { font-weight: 600; color: var(--quiet) }
td:first-child, th:first-child { text-align: left }
@media (NARROW) {
  .headed tr:first-child { display: none }
  .headed, .headed tbody, .headed tr { display: block }
  .headed tr { border-bottom: 2px solid var(--line); padding: .4em 0 }
  .headed td { display: flex; justify-content: space-between; gap: 1em; border: 0; padding: .1em 0;
               overflow-wrap: anywhere }
  .headed td::before { content: attr(data-heading); color: var(--quiet); text-align: left;
                       flex: none }
  .headed td[data-heading=""] { justify-content: flex-start; font-weight: 600 }
  .headed td[data-heading=""]::before { content: none }
  .wide img { max-width: min(100%, 34em) }
}
""".replace("NARROW", _NARROW)


class Picture(NamedTuple):
    """A picture as PNG, on a light and on a dark ground, each also for a narrow screen."""

    light: bytes
    dark: bytes
    narrow_light: bytes
    narrow_dark: bytes


def document(title: str, parts: Iterable[str]) -> str:
    """The page *title*, with *parts* of HTML below each other."""
    name = escape(title)
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{name}</title><style>{_STYLE}</style>"
    )
    body = "\n".join(parts)
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head><body>\n{body}\n</body></html>\n'


def table(
    headings: Sequence[str], rows: Iterable[Sequence[str]], *, links: Sequence[str] = ()
) -> str:
    """A table; on a narrow screen each row of a table with *headings* becomes a list.

    Args:
        headings: text above each column, none for a table without.
        links: address of each heading, "" for none; none by default.
    """
    addresses = [*links, *[""] * (len(headings) - len(links))]
    head = "".join(
        f"<th>{_linked(heading, address)}</th>"
        for heading, address in zip(headings, addresses, strict=True)
    )
    lines = [_row(headings, row) for row in rows]
    body = "\n".join(f"<tr>{line}</tr>" for line in ([head] if head else []) + lines)
    kind = "headed" if headings else "plain"
    return f'<div class="wide"><table class="{kind}"><tbody>\n{body}\n</tbody></table></div>'


def _row(headings: Sequence[str], row: Sequence[str]) -> str:
    if not headings:
        return "".join(f"<td>{escape(cell)}</td>" for cell in row)
    return "".join(
        f'<td data-heading="{escape(heading)}">{escape(cell)}</td>'
        for heading, cell in zip(headings, row, strict=True)
    )


def _linked(text: str, address: str) -> str:
    return f'<a href="{escape(address)}">{escape(text)}</a>' if address else escape(text)


def figure(caption: str, picture: Picture) -> str:
    """A picture below its caption; embedded in the page, for both colour schemes.

    A narrow screen has the picture that is drawn for it, whose words can be read there.
    """
    alt = escape(caption)
    sources = (
        (f"({_NARROW}) and ({_DARK})", picture.narrow_dark),
        (f"({_NARROW})", picture.narrow_light),
        (f"({_DARK})", picture.dark),
    )
    others = "".join(
        f'<source media="{media}" srcset="{_data(content)}">' for media, content in sources
    )
    image = f'<img alt="{alt}" src="{_data(picture.light)}">'
    return f'<h2>{alt}</h2>\n<div class="wide"><picture>{others}{image}</picture></div>'


def _data(content: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(content).decode()}"
