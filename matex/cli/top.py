"""``matex top``: view of a run while it runs, and after."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from matex.errors import InputError

__all__ = ["add_command"]


def add_command(commands: Any) -> None:
    """Add ``top`` to the subparsers *commands*."""
    parser = commands.add_parser(
        "top",
        help="show a run while it happens",
        description="Show the run that writes into DIR, from this or another host, until Ctrl-C: "
        "its ranks, steps, losses, and what happened last. It only reads what is there.",
    )
    parser.add_argument(
        "directory",
        type=Path,
        nargs="?",
        metavar="DIR",
        help="report directory of the run; default: the newest in the present directory or below",
    )
    parser.add_argument(
        "--once",
        action="store_true",
        help="print one screen and exit; as where standard output is no terminal",
    )
    parser.set_defaults(parser=parser, act=_top)


def _top(arguments: argparse.Namespace) -> int:
    """Show the run; return the exit status, 0 after Ctrl-C too."""
    try:
        from matex.top.find import newest_report
        from matex.top.watch import show, show_once

        directory = arguments.directory or newest_report(Path())
        if arguments.once or not sys.stdout.isatty():
            show_once(directory)
        else:
            show(directory)
    except InputError as error:
        arguments.parser.error(str(error))
    except KeyboardInterrupt:
        pass
    return 0
