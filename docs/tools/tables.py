"""The parts of the pages that are made of the code, between two comments: options, faults, names.

``python -m docs.tools`` writes them into the pages, so that they read the same in the repository
and in the site.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import Path

import ft
from docs.tools.commands import command_sections
from docs.tools.exclusions import exclusion_table
from matex.config.reference import sections

__all__ = ["filled", "option_names", "stale"]

ROOT = Path(__file__).resolve().parents[2]
_PART = re.compile(r"<!-- made: ([\w. ]+) -->\n.*?<!-- end -->", re.DOTALL)


def stale() -> dict[Path, str]:
    """Pages whose parts differ from the code, with the text that they should have."""
    pages = sorted((ROOT / "docs").rglob("*.md"))
    texts = {page: page.read_text() for page in pages}
    return {page: new for page, text in texts.items() if (new := filled(text)) != text}


def filled(markdown: str) -> str:
    """A page's *markdown* with each part made anew."""
    return _PART.sub(lambda match: _part(match[1]), markdown)


def option_names() -> set[str]:
    """The options of ``matex run``, with their dashes. Pure."""
    return set(re.findall(r"`(--?[a-z][a-z-]*)[^`]*`", sections()))


def _part(name: str) -> str:
    kind, _, rest = name.partition(" ")
    text = _MAKERS[kind](rest) if rest else _PLAIN[kind]()
    return f"<!-- made: {name} -->\n\n{text.strip()}\n\n<!-- end -->"


def _fault_tables() -> str:
    lines = ["| Kind | What it does | Further keys |", "| --- | --- | --- |"]
    for kind, (text, keys) in ft.KINDS.items():
        lines.append(f"| `{kind}` | {text} | {', '.join(f'`{key}`' for key in keys)} |")
    phases, events = (", ".join(f"`{name}`" for name in names) for names in (ft.PHASES, ft.EVENTS))
    return "\n".join([*lines, "", f"- `at` is one of {phases}.", f"- `event` is one of {events}."])


def _names(package: str) -> str:
    """The public names of *package*, read from its file without an import."""
    path = ROOT / package.replace(".", "/")
    tree = ast.parse(
        (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text()
    )
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return f"{', '.join(f'`{name}`' for name in ast.literal_eval(node.value))}."
    raise LookupError(f"{package} has no __all__")


_PLAIN: dict[str, Callable[[], str]] = {
    "options": sections,
    "exclusions": exclusion_table,
    "commands": command_sections,
    "faults": _fault_tables,
}
_MAKERS: dict[str, Callable[[str], str]] = {"names": _names}
