"""``matex report``: a run's page and pictures."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from matex.errors import InputError

__all__ = ["add_command"]


def add_command(commands: Any) -> None:
    """Add ``report`` to the subparsers *commands*."""
    parser = commands.add_parser(
        "report",
        help="draw what a run did",
        description="Write report.html, which needs nothing beside it, and its pictures into the "
        "report directory of a run.",
    )
    parser.add_argument("directory", type=Path, metavar="DIR")
    parser.set_defaults(parser=parser, act=_report)


def _report(arguments: argparse.Namespace) -> int:
    from matex.report import read_run, write_report

    try:
        print(write_report(read_run(arguments.directory)))
    except InputError as error:
        arguments.parser.error(str(error))
    return 0
