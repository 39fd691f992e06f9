"""``matex prune``: removal of units from a trained model in one shot."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from matex.apoptosis.criteria.table import CRITERIA
from matex.cli.importing import import_by_name, unheard_import
from matex.cli.values import at_least_one, fraction
from matex.errors import InputError

__all__ = ["TARGETS", "add_command"]

TARGETS = ("parameters", "flops")


def add_command(commands: Any) -> None:
    """Add ``prune`` to the subparsers *commands*."""
    by_loss = " and ".join(name for name, one in CRITERIA.items() if one.derivatives)
    parser = commands.add_parser(
        "prune",
        help="make a trained model smaller",
        description="Remove the units of MODEL whose work the others can do best, and save what "
        "is left beside it. The data are only looked at.",
    )
    add = parser.add_argument
    add("model", type=Path, metavar="MODEL.keras", help="trained model")
    add(
        "--data",
        type=Path,
        required=True,
        metavar="FILE",
        help="data file with x_train and y_train, or x and y (of several inputs or outputs: "
        "members with their names); half of its rows are held out",
    )
    add(
        "--ratio",
        type=fraction,
        required=True,
        metavar="R",
        help="part of the model to remove, between 0 and 1",
    )
    add(
        "--target",
        choices=TARGETS,
        default="parameters",
        help="what that is a part of (default: parameters)",
    )
    add(
        "--criterion",
        choices=tuple(CRITERIA),
        default="gram",
        help=f"by what units are chosen (default: gram); {by_loss} want a model with a loss, "
        "and y in the data",
    )
    add(
        "--exclude",
        action="append",
        default=[],
        metavar="LAYER",
        help="layer that keeps its units; may be given again",
    )
    add(
        "--samples",
        type=at_least_one,
        default=2048,
        help="rows to measure on, and as many to judge by, at most (default: 2048)",
    )
    add(
        "--out",
        type=Path,
        metavar="FILE",
        help="file that is written (default: MODEL-pruned.keras)",
    )
    add(
        "--import",
        action="append",
        default=[],
        dest="imports",
        metavar="MODULE",
        help="module, or file.py, that registers classes of the model's own; may be given again",
    )
    add("--force", action="store_true", help="replace FILE where it is there")
    parser.set_defaults(parser=parser, act=_run)


def _run(arguments: argparse.Namespace) -> int:
    """Prune, save and report; return the exit status. Bad input ends with a line and status 2."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # else TensorFlow's lines come before ours
    with unheard_import():
        from matex.apoptosis.one_shot import prune_file

    out = arguments.out or arguments.model.with_name(f"{arguments.model.stem}-pruned.keras")
    try:
        for name in arguments.imports:
            import_by_name(name)
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
