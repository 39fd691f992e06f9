"""The ``matex`` command."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import ft
import matex
from matex import data_cli
from matex.config import COMPRESSIONS, EXCHANGES, STRATEGIES, Config, batch_job
from matex.errors import InputError
from matex.schedules import SCALINGS

__all__ = ["main"]

_COMMANDS = ("run", "data", "doctor", "build", "-h", "--help", "--version")
_USAGE_ERROR = 2

# Options that the ranks are given as they came, beside the faults.
_FORWARDED = (
    "checkpoint", "checkpoint_every", "keep", "seed", "hang_timeout", "threads", "exchange",
    "strategy", "batch_per_rank", "lr_scaling", "warmup_epochs", "compression",
)  # fmt: skip


class _Parser(argparse.ArgumentParser):
    """Bad input gets one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(_USAGE_ERROR, f"{self.prog}: {message} (see {self.prog} --help)\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; its exit status. Bad input raises SystemExit with status 2 after one line."""
    argv = list(sys.argv[1:] if argv is None else argv)
    if argv and argv[0] not in _COMMANDS:
        return _rank(argv)
    parser = _Parser(
        prog="matex",
        description="Data-parallel Keras training on MPI ranks that goes on when ranks die.",
        epilog="Under an existing mpiexec or srun: python -m matex [options] script.py ...",
    )
    parser.add_argument("--version", action="version", version=f"matex {matex.__version__}")
    commands = parser.add_subparsers(dest="command", required=True, parser_class=_Parser)
    about, faults = _run_texts()
    run = commands.add_parser(
        "run", help="run a Keras script on several ranks", description=about, epilog=faults
    )
    run.add_argument(
        "-n", "--ranks", type=_at_least_one, metavar="N",
        help="how many ranks (in a Slurm, PBS or LSF job: default is what it was given)",
    )  # fmt: skip
    run.add_argument(
        "--hosts", metavar="a:2,b:2",
        help="hosts and their slots (default: those of the batch job, else this one)",
    )  # fmt: skip
    run.add_argument("--dry-run", action="store_true", help="only print the mpiexec command")
    _add_rank_options(run)
    data_cli.add_commands(commands, _Parser)
    commands.add_parser("doctor", help="say what this machine has for matex")
    commands.add_parser(
        "build",
        help="build the native exchange",
        description="Build the native exchange now, for nodes that have no compiler. "
        "Without this command the first run builds it, where it can.",
    )
    arguments = parser.parse_args(argv)
    if arguments.command == "data":
        return data_cli.run(arguments)
    if arguments.command != "run":
        from matex import doctor

        return doctor.report() if arguments.command == "doctor" else doctor.build()
    return _run(run, arguments)


def _run_texts() -> tuple[str, str]:
    return (
        "Run an unchanged Keras script on N ranks. batch_size in the script is the "
        "global batch: the result does not depend on N. Exit status 0 when training finished, "
        "1 when it failed.",
        "FAULT is KIND:key=value,... with keys rank, step, at. Kinds: "
        + "; ".join(f"{kind}: {text}" for kind, (text, _) in ft.KINDS.items())
        + f". at is one of {', '.join(ft.PHASES)}. Example: kill:rank=2,step=40",
    )


def _add_rank_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--report", type=Path, metavar="DIR", help="write events, logs and summary.json here")
    add(
        "--checkpoint", type=Path, metavar="DIR",
        help="save here, and continue from the newest valid checkpoint in it",
    )  # fmt: skip
    add(
        "--checkpoint-every", type=int, metavar="STEPS",
        help="also save inside epochs (default: at their ends only)",
    )  # fmt: skip
    add("--keep", type=int, metavar="K", help="how many checkpoints to keep (default: 3)")
    add("--seed", type=int, help="seeds Keras, NumPy and Python before the script (default: 0)")
    add(
        "--inject", action="append", metavar="FAULT", help="set off a fault; may be given again"
    )  # fmt: skip
    add(
        "--hang-timeout", type=float, metavar="SECONDS",
        help="a rank without progress for so long ends itself (default: 600)",
    )  # fmt: skip
    add(
        "--threads", type=int, metavar="T", help="TensorFlow threads of a rank (default: its share)"
    )
    add(
        "--exchange", choices=EXCHANGES,
        help="how gradients travel: an operation in C++, mpi4py, or auto (default): what is there",
    )  # fmt: skip
    add(
        "--strategy", choices=STRATEGIES,
        help="how ranks share the work of fit: sync (default) averages gradients in every step; "
        "gossip sends the model to one other rank in every step; easgd meets every four steps",
    )  # fmt: skip
    add(
        "--batch-per-rank", action="store_true", default=None,
        help="batch_size in the script is that of each rank, not the global one",
    )  # fmt: skip
    add(
        "--lr-scaling", choices=SCALINGS,
        help="multiply the learning rate by the ranks (linear) or their square root (sqrt); "
        "with --batch-per-rank",
    )  # fmt: skip
    add(
        "--warmup-epochs", type=float, metavar="E",
        help="let that factor climb from 1 in so many epochs (default: 5)",
    )  # fmt: skip
    add(
        "--compression", choices=COMPRESSIONS,
        help="send gradients in 16 bits; what rounding takes is added to the next step's",
    )  # fmt: skip
    add("script", type=Path, help="a Keras script")
    add("arguments", nargs=argparse.REMAINDER, help="the script's own arguments")


def _config(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> Config:
    given = {
        name: getattr(arguments, name)
        for name in ("report", *_FORWARDED)
        if getattr(arguments, name) is not None
    }  # fmt: skip
    if arguments.inject:
        given["inject"] = tuple(arguments.inject)
    try:
        config = Config.from_environment(**given)
    except (InputError, ft.UsageError) as error:
        parser.error(str(error))
    if not arguments.script.is_file():
        parser.error(f"a Keras script is wanted. Received: {arguments.script}, which is no file")
    return config


def _rank(argv: list[str]) -> int:
    """One rank of a run that mpiexec or srun started."""
    parser = _Parser(
        prog="python -m matex",
        description="One rank of a run that mpiexec or srun started, or, started by hand, a run "
        "of one rank. To start several, see: matex run --help",
    )
    _add_rank_options(parser)
    arguments = parser.parse_args(argv)
    config = _config(parser, arguments)
    from matex.process import run_script

    return run_script(arguments.script, arguments.arguments, config)


def _run(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    from matex.launch import Launch, launch, mpiexec_command

    config = _config(parser, arguments)
    job = batch_job()
    ranks = arguments.ranks or (job.ranks if job else None)
    if ranks is None:
        parser.error("-n N, the number of ranks, is wanted outside a batch job. Received: none")
    try:
        ft.check_faults(config.faults, ranks=ranks)
    except ft.UsageError as error:
        parser.error(str(error))
    wanted = Launch(
        ranks=ranks,
        script=arguments.script,
        arguments=arguments.arguments,
        options=_options(config),
        hosts=arguments.hosts or (job.hosts if job else None),
        nodes=job.nodes if job else 1,
        report=config.report,
    )
    if arguments.dry_run:
        print(*mpiexec_command(wanted, report=config.report or Path("REPORT"), mpiexec="mpiexec"))
        return 0
    try:
        return launch(wanted)
    except InputError as error:
        parser.error(str(error))


def _options(config: Config) -> list[str]:
    """The command line of a rank that is to have this configuration."""
    options: list[str] = []
    default = Config()
    for name in _FORWARDED:
        value = getattr(config, name)
        if value is True:
            options.append(f"--{name.replace('_', '-')}")
        elif value != getattr(default, name):
            text = str(value.absolute() if isinstance(value, Path) else value)
            options += [f"--{name.replace('_', '-')}", text]
    for fault in config.inject:
        options += ["--inject", fault]
    return options


def _at_least_one(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(
            f"the number of ranks must be a whole number of at least 1. Received: {text}"
        )
    return number
