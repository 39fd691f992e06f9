"""Parser of all commands: bad input gets one line, and options have one spelling."""

from __future__ import annotations

import argparse
import difflib
import re
from collections.abc import Sequence
from typing import Any, NoReturn

__all__ = ["USAGE_ERROR", "Parser"]

# In the words of argparse (Python 3.10 to 3.13).
_VALUE_OF_A_SWITCH = re.compile(r"argument (\S+): ignored explicit argument (.*)", re.DOTALL)
_VALUE = re.compile(r"argument (.+?): invalid (int|float) value: (.*)", re.DOTALL)
_MUST = re.compile(r"argument (\S+): (must be .*)", re.DOTALL)
_CHOICE = re.compile(r"argument (.+?): invalid choice: (.+) \(choose from (.*)\)", re.DOTALL)
_KINDS = {"int": "a whole number", "float": "a number"}

#: The exit status after bad input.
USAGE_ERROR = 2


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line.

    Abbreviations are not taken: argparse would look for its own options in the arguments of
    the script, too.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"allow_abbrev": False, **options})

    def parse(self, words: Sequence[str]) -> argparse.Namespace:
        """Parsed *words*; an unknown option is refused by the command that got it.

        Raises:
            SystemExit: status 2 after one line, at bad input.
        """
        arguments, unknown = self.parse_known_args(words)
        if unknown:
            command: Parser = getattr(arguments, "parser", self)
            name = unknown[0].partition("=")[0]
            near = difflib.get_close_matches(name, command._option_string_actions, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            command.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
        return arguments

    def error(self, message: str) -> NoReturn:
        if switch := _VALUE_OF_A_SWITCH.fullmatch(message):
            message = f"{switch[1]} must be given without a value. Received: {switch[2]}"
        elif value := _VALUE.fullmatch(message):
            message = f"{value[1]} must be {_KINDS[value[2]]}. Received: {value[3]}"
        elif must := _MUST.fullmatch(message):
            message = f"{must[1]} {must[2]}"
        elif choice := _CHOICE.fullmatch(message):
            known = choice[3].replace("'", "")
            message = f"{choice[1]} must be one of {known}. Received: {choice[2]}"
        self.exit(USAGE_ERROR, f"{self.prog}: {message} (see {self.prog} --help)\n")
