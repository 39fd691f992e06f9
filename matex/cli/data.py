"""Command line of ``matex data``; readers are imported when it runs."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from matex.cli.values import at_least_one, fraction
from matex.errors import InputError

__all__ = ["FORMATS", "add_command"]

FORMATS = ("hdf5", "csv", "idx", "cifar", "images", "tfrecord", "netcdf", "tar")


def add_command(commands: Any) -> None:
    """Add ``data`` with its actions to the subparsers *commands*."""
    about = "Look into data files, and convert them to HDF5 that ranks read by rows."
    parser = commands.add_parser("data", help="look into and convert data files", description=about)
    parser.set_defaults(parser=parser)
    actions = parser.add_subparsers(dest="action", required=True)
    info = actions.add_parser("info", help="say what a file or folder holds")
    info.add_argument("file", type=Path, metavar="FILE", help="data file or folder")
    _add_options(info)
    convert = actions.add_parser(
        "convert",
        help="write a contiguous HDF5 file",
        description="Convert a data file or folder to one contiguous HDF5 file, in little memory. "
        "It appears when it is whole, or not at all.",
    )
    add = convert.add_argument
    add("source", type=Path, metavar="IN", help="data file or folder")
    add("target", type=Path, metavar="OUT.h5", help="file that is written")
    split = convert.add_mutually_exclusive_group()
    split.add_argument(
        "--test-rows", type=at_least_one, metavar="N",
        help="the last N rows become x_test and y_test, the others x_train and y_train",
    )  # fmt: skip
    split.add_argument(
        "--test-fraction",
        type=fraction,
        metavar="F",
        help="the same with a part of the rows, from 0 to 1",
    )
    add(
        "--dtype", choices=("float16", "float32", "float64"), default="float32",
        help="type of floating-point values (default: float32)",
    )  # fmt: skip
    add("--force", action="store_true", help="replace OUT.h5")
    _add_options(convert)
    for action in (info, convert):
        action.set_defaults(parser=action, act=_run)


def _add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--format", choices=FORMATS, help="format of the file (default: by its content)")
    add(
        "--label", type=_column, metavar="COLUMN",
        help="csv: the label's column, by number or name (default: 0); tfrecord: its feature; "
        "tar: a field of .json",
    )  # fmt: skip
    add(
        "--label-first",
        dest="label",
        action="store_const",
        const=0,
        help="csv: the first column, as --label 0",
    )
    add(
        "--label-last",
        dest="label",
        action="store_const",
        const=-1,
        help="csv: the last column is the label",
    )
    add(
        "--header", action=argparse.BooleanOptionalAction, default=None,
        help="csv: whether the first line names the columns (default: look at it)",
    )  # fmt: skip
    add(
        "--size", type=_size, metavar="HxW",
        help="images, tfrecord, tar: cut and scale images to this height and width",
    )  # fmt: skip


def _run(arguments: argparse.Namespace) -> int:
    """Run the parsed action; return its exit status. Bad input ends with a line and status 2."""
    from matex.cli import data_actions

    parser: argparse.ArgumentParser = arguments.parser
    try:
        return data_actions.run(arguments)
    except InputError as error:
        parser.error(str(error))
    except KeyboardInterrupt:
        print(f"{parser.prog}: interrupted, nothing was written", file=sys.stderr)
        return 130


def _column(text: str) -> int | str:
    return int(text) if text.lstrip("-").isdecimal() else text


def _size(text: str) -> tuple[int, int]:
    height, _, width = text.partition("x")
    if not (height.isdecimal() and width.isdecimal() and int(height) and int(width)):
        raise argparse.ArgumentTypeError(f"must be HxW, as 224x224. Received: {text}")
    return int(height), int(width)
