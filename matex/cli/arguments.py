"""Command line arguments from a table of options, and the values given."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from matex.config.kinds import SWITCH, WORDS
from matex.config.option import Option, options_of
from matex.config.options import GROUPS

__all__ = ["add_options", "completed", "given_words"]


def add_options(parser: argparse.ArgumentParser, *tables: type) -> None:
    """Add the options of *tables* to *parser*, in groups, common ones first.

    With them comes ``--help``, unless the parser has it. Texts are read later, by the table: an
    error then says the same wherever a value stands.
    """
    options = _flagged(tables)
    known = [option.group for option in options]
    for title in dict.fromkeys([*GROUPS, *known]):
        group = parser.add_argument_group(title)
        if title == GROUPS[0] and not parser.add_help:
            group.add_argument("-h", "--help", action="help", help="show this message and exit")
        for option in options:
            if option.group == title:
                _add(group, option)


def completed(words: Sequence[str], *tables: type) -> list[str]:
    """Command line *words*, with values for options of *tables* that may stand alone. Pure.

    A word after such an option is its value if it is a number, and else the script or another
    option. Words after the script are the script's.
    """
    known = {flag: o for o in _flagged(tables) for flag in (o.flag, o.short) if flag}
    found: list[str] = []
    left = list(words)
    while left and left[0].startswith("-"):
        word = left.pop(0)
        found.append(word)
        option = known.get(word)
        if option is None or option.kind is SWITCH:
            continue
        if option.alone is not None and not (left and left[0].lstrip("-").isdecimal()):
            found.append(option.kind.write(option.alone))
        elif left:
            found.append(left.pop(0))
    return [*found, *left]


def _add(group: Any, option: Option) -> None:
    flags = [option.short, option.flag] if option.short else [option.flag]
    text = argparse.SUPPRESS if option.hidden else option.help_line.replace("%", "%%")
    form: dict[str, Any] = {"metavar": option.value_text}
    if option.kind is SWITCH:
        form = {"action": "store_const", "const": True}
    elif option.kind is WORDS:
        form["action"] = "append"
    group.add_argument(*flags, dest=option.name, help=text, **form)


def given_words(arguments: argparse.Namespace, *tables: type) -> dict[str, Any]:
    """Options of *tables* on the command line, with their texts."""
    words = {option.name: getattr(arguments, option.name, None) for option in _flagged(tables)}
    return {name: word for name, word in words.items() if word is not None}


def _flagged(tables: tuple[type, ...]) -> list[Option]:
    return [option for table in tables for option in options_of(table) if option.flag]
