"""The reference on options: ``sections() -> str``, Markdown made of the table. Pure.

``python -m docs.tools`` writes it into ``docs/reference/options.md``.
"""

from __future__ import annotations

import re

from matex.config.config import Config
from matex.config.kinds import SWITCH, TIME
from matex.config.option import Option, options_of
from matex.config.options import GROUPS, LaunchOptions

__all__ = ["SET_BY_RUN", "sections"]

_FLAG = re.compile(r"(--[a-z-]+)")

#: The title of those that a user need not give.
SET_BY_RUN = "set by `matex run`"

_COLUMNS = ("Option", "`matex.init`", "Variable", "Value", "Default", "What it is")


def sections(launch: type = LaunchOptions, ranks: type = Config) -> str:
    """A section for each group of options, the last for those that ``matex run`` gives to ranks.

    Args:
        launch: class of options that only ``matex run`` takes.
        ranks: class of options that ranks take as well.
    """
    rows = [(option, "") for option in options_of(launch)]
    rows += [(option, f"`{option.name}`") for option in options_of(ranks)]
    groups: dict[str, list[tuple[Option, str]]] = {title: [] for title in GROUPS}
    for option, keyword in rows:
        title = SET_BY_RUN if option.hidden else option.group
        groups.setdefault(title, []).append((option, keyword))
    if SET_BY_RUN in groups:
        groups[SET_BY_RUN] = groups.pop(SET_BY_RUN)
    return "\n".join(_section(title, rows) for title, rows in groups.items())


def _section(title: str, rows: list[tuple[Option, str]]) -> str:
    lines = [f"## {title[0].upper()}{title[1:]}", "", _line(_COLUMNS)]
    lines += [_line(["---"] * len(_COLUMNS))]
    lines += [_line(_cells(option, keyword)) for option, keyword in rows]
    return "\n".join([*lines, ""])


def _line(cells: list[str] | tuple[str, ...]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _cells(option: Option, keyword: str) -> tuple[str, ...]:
    flags = [flag for flag in (option.short, option.flag) if flag]
    value = option.value_text
    return (
        ", ".join(f"`{f'{flag} {value}' if option.metavar else flag}`" for flag in flags),
        keyword,
        f"`{option.variable}`" if option.variable else "",
        _values(option),
        _default(option),
        _meaning(option),
    )


def _default(option: Option) -> str:
    if option.kind is SWITCH:
        return "1" if option.default else "off"
    if option.default_text:
        plain = option.default_text == str(option.default)
        return f"`{option.default_text}`" if plain else option.default_text
    return "none" if option.kind is TIME or option.default in (None, "", ()) else "`0`"


def _values(option: Option) -> str:
    if option.choices:
        return ", ".join(f"`{word}`" for word in option.choices if word)
    return option.wanted


def _meaning(option: Option) -> str:
    """The help as sentences, with the strategies under which the option is taken."""
    text = option.condition_and_help
    text = _FLAG.sub(r"`\1`", f"{text[0].upper()}{text[1:]}.")
    if option.strategies and option.why:
        text += f" With strategy {' or '.join(option.strategies)} only: {option.why}."
    return text
