"""``matex prune``: the same removal in one shot, on a trained model."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from matex.errors import InputError

__all__ = ["add_command"]


def add_command(commands: Any) -> None:
    """Add ``prune`` to the subparsers *commands*."""
    parser = commands.add_parser(
        "prune",
        help="make a trained model smaller",
        description="Remove the units of MODEL whose work the others can do best, and save what "
        "is left beside it. The data are only looked at, and needed for the criterion gram.",
    )
    add = parser.add_argument
    add("model", type=Path, metavar="MODEL.keras")
    add(
        "--data",
        type=Path,
        metavar="FILE",
        help="with x_train and y_train, or x and y; half of it is held out",
    )
    add("--ratio", type=float, required=True, metavar="R", help="share to remove, from 0 to 1")
    add("--target", default="parameters", help="of what: parameters (default) or flops")
    add("--criterion", default="gram", help="gram (default), projection, similarity, angle, ...")
    add("--exclude", action="append", default=[], metavar="LAYER", help="may be given again")
    add(
        "--samples",
        type=int,
        default=2048,
        help="rows to measure on, and as many to judge by, at most (default: 2048)",
    )
    add("--out", type=Path, metavar="FILE", help="default: MODEL-pruned.keras")
    add("--force", action="store_true", help="replace what is there")
    parser.set_defaults(parser=parser, act=_run)


def _run(arguments: argparse.Namespace) -> int:
    """Prune, save and tell; the exit status. Bad input ends with one line and status 2."""
    from matex.apoptosis.one_shot import prune_file

    out = arguments.out or arguments.model.with_name(f"{arguments.model.stem}-pruned.keras")
    try:
        lines = prune_file(
            arguments.model,
            out,
            data=arguments.data,
            ratio=arguments.ratio,
            target=arguments.target,
            criterion=arguments.criterion,
            exclude=tuple(arguments.exclude),
            samples=arguments.samples,
            force=arguments.force,
        )
    except InputError as error:
        arguments.parser.error(str(error))
    print(*lines, sep="\n")
    return 0
