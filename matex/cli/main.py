"""The ``matex`` command: finds and runs the named subcommand."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import matex
from matex.cli import checkpoint, data, doctor, faults, prune, report, resize, run, top
from matex.cli.parser import Parser
from matex.cli.unread_output import quiet_when_unread
from matex.records.standard_streams import open_closed_streams

__all__ = ["main", "make_parser"]

# In the order of the help.
_COMMANDS = (run, top, resize, report, data, faults, prune, checkpoint, doctor)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return its exit status.

    Arguments that begin with no command are one rank of a run: ``python -m matex train.py``.

    Args:
        argv: words of the command line; this process's by default.

    Raises:
        SystemExit: status 2 after one line, at bad input.
    """
    open_closed_streams()
    argv = list(sys.argv[1:] if argv is None else argv)
    parser, names = make_parser()
    if not argv:
        parser.error(f"a command is wanted ({', '.join(names)}). Received: none")
    if argv[0] not in (*names, "-h", "--help", "--version"):
        return run.run_rank(argv, names)
    if argv[:1] == ["run"]:
        argv[1:] = run.completed_line(argv[1:])
    with quiet_when_unread():
        arguments = parser.parse(argv)
        _want_directory(arguments.parser)
        status: int = arguments.act(arguments)
        return status


def make_parser() -> tuple[Parser, tuple[str, ...]]:
    """The parser of all commands, and their names in the order of the help."""
    parser = Parser(
        prog="matex",
        description="Data-parallel Keras training on MPI ranks that goes on when ranks die.",
        epilog="Under an existing mpiexec or srun: python -m matex [options] script.py ...",
    )
    parser.add_argument("--version", action="version", version=f"matex {matex.__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    for module in _COMMANDS:
        module.add_command(commands)
    return parser, tuple(commands.choices)


def _want_directory(parser: Parser) -> None:
    """Refuse a working directory that has been removed: no path could be made absolute.

    Raises:
        SystemExit: status 2 after one line.
    """
    try:
        Path.cwd()
    except FileNotFoundError:
        parser.error(
            "the directory in which the command runs does not exist any more; change to another"
        )
