"""The parser that all commands use: bad input gets one line, and options have one spelling."""

from __future__ import annotations

import argparse
from typing import Any, NoReturn

__all__ = ["USAGE_ERROR", "Parser", "count", "count_from_one"]

#: The exit status after bad input.
USAGE_ERROR = 2


class Parser(argparse.ArgumentParser):
    """An argument parser that says in one line what is wrong.

    Abbreviations are not taken: argparse would look for its own options in the arguments of
    the script, too.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"allow_abbrev": False, **options})

    def error(self, message: str) -> NoReturn:
        self.exit(USAGE_ERROR, f"{self.prog}: {message} (see {self.prog} --help)\n")


def count(text: str) -> int:
    """A whole number from 0, as written."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"a whole number from 0 was wanted. Received: {text}")
    return int(text)


def count_from_one(text: str) -> int:
    """A whole number from 1, as written."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1. Received: {text}")
    return int(text)
