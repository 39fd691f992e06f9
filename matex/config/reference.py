"""The page of reference on options: ``page() -> str``, Markdown made of the table. Pure.

The site's build writes it to ``docs/reference/options.md``; ``python -m matex.config.reference``
prints it.
"""

from __future__ import annotations

import re

from matex.config.config import Config
from matex.config.kinds import SWITCH, TIME
from matex.config.option import Option, options_of
from matex.config.options import GROUPS, LaunchOptions

__all__ = ["page"]

_FLAG = re.compile(r"(--[a-z-]+)")

_HEAD = """# Options

An option is given on the command line of `matex run` (or of `python -m matex`, under another
launcher), as a keyword of `matex.init`, or in the environment, in this order of strength. Options
without a keyword are for starting the ranks, and only `matex run` takes them. Values are equal on
all ranks.
"""

_COLUMNS = ("Option", "`matex.init`", "Variable", "Value", "Default", "What it is")


def page(launch: type = LaunchOptions, ranks: type = Config) -> str:
    """The page, with a section for each group of options.

    Args:
        launch: class of options that only ``matex run`` takes.
        ranks: class of options that ranks take as well.
    """
    rows = [(option, "") for option in options_of(launch)]
    rows += [(option, f"`{option.name}`") for option in options_of(ranks)]
    titles = dict.fromkeys([*GROUPS, *(option.group for option, _ in rows)])
    return "\n".join([_HEAD, *(_section(title, rows) for title in titles)])


def _section(title: str, rows: list[tuple[Option, str]]) -> str:
    lines = [f"## {title.capitalize()}", "", _line(_COLUMNS), _line(["---"] * len(_COLUMNS))]
    lines += [_line(_cells(option, keyword)) for option, keyword in rows if option.group == title]
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


if __name__ == "__main__":
    print(page(), end="")
