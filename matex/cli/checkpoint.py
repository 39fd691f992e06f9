"""Command line of ``matex checkpoint``, with late imports."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from matex.cli.values import file_to_write
from matex.errors import InputError

__all__ = ["add_command"]


def add_command(commands: Any) -> None:
    """Add ``checkpoint`` with its actions to the subparsers *commands*."""
    about = "Look into checkpoints, verify them, and make files of them that plain Keras reads."
    parser = commands.add_parser(
        "checkpoint", help="look into checkpoints, and export their models", description=about
    )
    actions = parser.add_subparsers(dest="action", required=True)
    made: list[argparse.ArgumentParser] = []

    def action(name: str, text: str, *files: str) -> argparse.ArgumentParser:
        sub: argparse.ArgumentParser = actions.add_parser(name, help=text, description=text)
        for file in files:
            sub.add_argument(file.lower(), type=Path, metavar=file)
        made.append(sub)
        return sub

    action("list", "Say what a directory holds, and whether each file is whole.", "DIR")
    action("show", "Say what a checkpoint, or the newest valid one of a directory, holds.", "PATH")
    action(
        "verify",
        "Read every byte of a checkpoint, or of all in a directory. Status 1: one is damaged.",
        "PATH",
    )
    action("diff", "Say in what two checkpoints differ. Status 1: they do.", "A", "B")
    export = action(
        "export",
        "Write a checkpoint's model for plain Keras: OUT is NAME.keras (the model) or "
        "NAME.weights.h5 (its weights, for model.load_weights).",
        "PATH",
    )
    archive = action(
        "archive",
        "Write only the weights, float32 as bfloat16, to a checkpoint half as large that no run "
        "continues from.",
        "PATH",
    )
    export.add_argument(
        "--allow-lambda", action="append", default=[], metavar="NAME",
        help="let this Lambda layer's code be loaded, and run when the model is used",
    )  # fmt: skip
    for sub in (export, archive):
        sub.add_argument("out", type=file_to_write, metavar="OUT")
        sub.add_argument("--force", action="store_true", help="replace OUT")
    for sub in made:
        sub.set_defaults(parser=sub, act=_run)


def _run(arguments: argparse.Namespace) -> int:
    """Run the parsed action; return its exit status. Bad input ends with a line and status 2."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # else TensorFlow's lines come before ours
    import checkpoints
    from matex.cli import checkpoint_actions

    parser: argparse.ArgumentParser = arguments.parser
    try:
        return checkpoint_actions.run(arguments)
    except (checkpoints.CheckpointError, InputError) as error:
        parser.error(str(error))
