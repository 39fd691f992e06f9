"""``matex report``: pages of a run and of several runs side by side, with pictures."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from matex.cli.values import file_to_write
from matex.errors import InputError

__all__ = ["add_command"]


def add_command(commands: Any) -> None:
    """Add ``report`` to the subparsers *commands*."""
    parser = commands.add_parser(
        "report",
        help="draw what a run did, and compare runs",
        description="Write report.html, which needs nothing beside it, and its pictures into the "
        "report directory of a run. Of several runs, also write one page that has them beside "
        "each other.",
    )
    parser.add_argument("directories", type=Path, metavar="DIR", nargs="+")
    parser.add_argument(
        "--index",
        type=file_to_write,
        metavar="FILE",
        help="page of several runs (default: runs.html in this directory)",
    )
    parser.set_defaults(parser=parser, act=_report)


def _report(arguments: argparse.Namespace) -> int:
    from matex.report import INDEX, read_run, write_index, write_report

    directories: list[Path] = arguments.directories
    if arguments.index is not None and len(directories) == 1:
        arguments.parser.error(
            "--index is a page of several runs, whose directories are wanted. Received: one"
        )
    try:
        runs = [read_run(directory) for directory in directories]
        for run in runs:
            print(write_report(run))
        if len(runs) > 1:
            print(write_index(runs, arguments.index or Path(INDEX)))
    except InputError as error:
        arguments.parser.error(str(error))
    except OSError as error:
        arguments.parser.error(
            f"a file that can be written is wanted. Received: {error.filename}: {error.strerror}"
        )
    return 0
