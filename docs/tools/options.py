"""The tables of options and faults in the pages, made of the command line's own description."""

from __future__ import annotations

import argparse
from dataclasses import fields

import ft
from matex.cli import run as command
from matex.cli.parser import Parser
from matex.config import Config

__all__ = ["option_names", "with_options"]

_OPTIONS, _FAULTS = "<!-- options -->", "<!-- faults -->"


def with_options(markdown: str) -> str:
    """A page's *markdown* with tables in the places that ask for them. Pure."""
    return markdown.replace(_OPTIONS, _option_tables()).replace(_FAULTS, _fault_tables())


def option_names() -> set[str]:
    """The options of ``matex run``, with their dashes. Pure."""
    return {name for action in _actions(run_parser()) for name in action.option_strings}


def run_parser() -> argparse.ArgumentParser:
    """The parser of ``matex run``. Pure."""
    commands = argparse.ArgumentParser().add_subparsers(parser_class=Parser)
    command.add_command(commands)
    return commands.choices["run"]


def _actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return [action for group in parser._action_groups for action in group._group_actions]


def _option_tables() -> str:
    lines: list[str] = []
    known = {field.name for field in fields(Config)}
    for group in run_parser()._action_groups:
        shown = [a for a in group._group_actions if a.option_strings and not _is_hidden(a)]
        if not shown:
            continue
        title = group.title or "options"
        lines += [f"## {title[0].upper()}{title[1:]}", ""]
        lines += [group.description, ""] if group.description else []
        lines += ["| Option | Variable | Meaning |", "| --- | --- | --- |"]
        for action in shown:
            variable = f"`MATEX_{action.dest.upper()}`" if action.dest in known else ""
            lines.append(f"| {_spelled(action)} | {variable} | {_meaning(action)} |")
        lines.append("")
    return "\n".join(lines)


def _is_hidden(action: argparse.Action) -> bool:
    return action.help == argparse.SUPPRESS or isinstance(action, argparse._HelpAction)


def _spelled(action: argparse.Action) -> str:
    names = ", ".join(f"`{name}`" for name in action.option_strings)
    if action.nargs == 0:
        return names
    wanted = action.metavar if action.choices is None or action.metavar else None
    value = str(wanted) if wanted else "{" + ",".join(map(str, action.choices or ())) + "}"
    value = action.dest.upper() if value == "{}" else value
    return names + f" `{value}`".replace("|", "&#124;")


def _meaning(action: argparse.Action) -> str:
    text = (action.help or "").replace("%(default)s", str(action.default)).replace("%%", "%")
    text = text.replace("|", "&#124;")
    return f"{text[:1].upper()}{text[1:]}"


def _fault_tables() -> str:
    lines = ["| Kind | What it does | Further keys |", "| --- | --- | --- |"]
    for kind, (text, keys) in ft.KINDS.items():
        lines.append(f"| `{kind}` | {text} | {', '.join(f'`{key}`' for key in keys)} |")
    phases, events = (", ".join(f"`{name}`" for name in names) for names in (ft.PHASES, ft.EVENTS))
    return "\n".join([*lines, "", f"- `at` is one of {phases}.", f"- `event` is one of {events}."])
