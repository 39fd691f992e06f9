"""The page of commands, made of the parsers of the command line."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator

from matex.cli.main import make_parser

__all__ = ["command_sections"]

_CODE = re.compile(
    r"(?<![\w`-])(matex run --[a-z-]+|python -m matex [a-z]+ --[a-z]+|matex [a-z]+|--[a-z][a-z-]*"
    r"|[xy]_t[a-z]+)(?![\w`-])"
)
#: It has a page of its own, by groups of options.
_ELSEWHERE = ("run",)


def command_sections() -> str:
    """A section for each command, with its actions below it."""
    _, *found = _parsers(make_parser()[0], "")
    return "\n\n".join(_section(parser, about) for parser, about in found)


def _parsers(
    parser: argparse.ArgumentParser, about: str
) -> Iterator[tuple[argparse.ArgumentParser, str]]:
    yield parser, about
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
            for name, below in action.choices.items():
                if name not in _ELSEWHERE:
                    yield from _parsers(below, helps.get(name, ""))


def _section(parser: argparse.ArgumentParser, about: str) -> str:
    words = parser.prog.split()
    rows = [_row(action) for action in parser._actions if action.dest != "help"]
    head = [f"{'#' * len(words)} {parser.prog}", "", _sentence(parser.description or about)]
    if parser.epilog:
        head[-1] += f" {parser.epilog}"
    if any(isinstance(action, argparse._SubParsersAction) for action in parser._actions):
        return "\n".join(head)
    usage = " ".join([parser.prog, *_usage(parser)])
    table = ["| Argument | What it is |", "| --- | --- |", *rows] if rows else []
    return "\n".join([*head, "", "```text", usage, "```", *(["", *table] if rows else [])])


def _usage(parser: argparse.ArgumentParser) -> Iterator[str]:
    if any(a.option_strings and not a.required and a.dest != "help" for a in parser._actions):
        yield "[options]"
    groups = [g for g in parser._mutually_exclusive_groups if g.required]
    for group in groups:
        yield f"({' | '.join(_spelling(action)[0] for action in group._group_actions)})"
    for action in parser._actions:
        if action.required and action.option_strings:
            yield _spelling(action)[0]
    for action in parser._actions:
        if not action.option_strings:
            name = _metavar(action)
            more = {"?": f"[{name}]", "*": f"[{name} ...]", "+": f"{name} [{name} ...]"}
            yield more.get(str(action.nargs), name)


def _metavar(action: argparse.Action) -> str:
    return str(action.metavar or action.dest)


def _spelling(action: argparse.Action) -> list[str]:
    """The spellings of an argument, the full one first."""
    if not action.option_strings:
        return [_metavar(action)]
    value = ""
    if action.nargs != 0 and not isinstance(action, argparse.BooleanOptionalAction):
        choices = f"{{{','.join(map(str, action.choices))}}}" if action.choices else ""
        value = f" {action.metavar or choices or action.dest.upper()}"
    return [f"{name}{value}" for name in sorted(action.option_strings, key=len, reverse=True)]


def _row(action: argparse.Action) -> str:
    names = ", ".join(f"`{name}`" for name in _spelling(action)).replace("|", "\\|")
    needed = " Required." if action.required and action.option_strings else ""
    return f"| {names} | {_sentence(action.help or '')}{needed} |"


def _sentence(text: str) -> str:
    text = _CODE.sub(r"`\1`", text.strip().rstrip(".").replace("%%", "%"))
    return f"{text[:1].upper()}{text[1:]}." if text else ""
