"""The pages of the documentation, read as text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
TEXTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *PAGES]

_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)


class Field(NamedTuple):
    """One line of a table of fields."""

    name: str
    types: str
    meaning: str


def prose(path: Path) -> str:
    """The text of a page without its blocks of code."""
    return _BLOCK.sub("", path.read_text())


def links(path: Path) -> list[str]:
    return _LINK.findall(prose(path))


def blocks(path: Path, language: str) -> list[str]:
    return [code for name, code in _BLOCK.findall(path.read_text()) if name == language]


def anchors(path: Path) -> set[str]:
    """Anchors that MkDocs gives the headings of a page."""
    titles = re.findall(r"^#+ (.+)$", prose(path), re.MULTILINE)
    plain = [re.sub(r"[^\w\s-]", "", title).strip().lower() for title in titles]
    return {re.sub(r"[-\s]+", "-", title) for title in plain}


def tables(path: Path) -> dict[str, list[Field]]:
    """The fields below each heading of a reference page, by the heading."""
    found: dict[str, list[Field]] = {}
    heading = ""
    for line in path.read_text().splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ")
            found[heading] = []
        found.get(heading, []).extend(_fields(line))
    return found


def _fields(line: str) -> Iterator[Field]:
    match = re.match(r"\| `(\w+)` \| ([a-z ]+) \| (.*) \|$", line)
    if match:
        yield Field(*match.groups())
