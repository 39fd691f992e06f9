"""The tables of options and faults in the pages, made of what the command line is made of."""

from __future__ import annotations

import re

import ft
from matex.config.reference import page

__all__ = ["option_names", "with_options"]

_OPTIONS, _FAULTS = "<!-- options -->", "<!-- faults -->"


def with_options(markdown: str) -> str:
    """A page's *markdown* with tables in the places that ask for them. Pure."""
    return markdown.replace(_OPTIONS, _option_tables()).replace(_FAULTS, _fault_tables())


def option_names() -> set[str]:
    """The options of ``matex run``, with their dashes. Pure."""
    return set(re.findall(r"`(--?[a-z][a-z-]*)[^`]*`", _option_tables()))


def _option_tables() -> str:
    """The sections of the page of reference, without its head."""
    return "## " + page().partition("\n## ")[2]


def _fault_tables() -> str:
    lines = ["| Kind | What it does | Further keys |", "| --- | --- | --- |"]
    for kind, (text, keys) in ft.KINDS.items():
        lines.append(f"| `{kind}` | {text} | {', '.join(f'`{key}`' for key in keys)} |")
    phases, events = (", ".join(f"`{name}`" for name in names) for names in (ft.PHASES, ft.EVENTS))
    return "\n".join([*lines, "", f"- `at` is one of {phases}.", f"- `event` is one of {events}."])
