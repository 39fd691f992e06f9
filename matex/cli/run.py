"""``matex run``, and ``python -m matex SCRIPT``, one rank of a run."""

from __future__ import annotations

import argparse
import dataclasses
import os
import socket
import sys
import tempfile
import textwrap
from collections.abc import Sequence
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ft
from matex.cli.arguments import add_options, completed, given_words
from matex.cli.parser import Parser
from matex.config import Config, LaunchOptions, ProgramOptions, batch_job
from matex.config.given import make, names_given, without_effect
from matex.config.option import options_of
from matex.config.virtual import workers_for
from matex.errors import InputError

if TYPE_CHECKING:
    from matex.launcher.launch import Launch
    from matex.launcher.mpiexec import Mpiexec

__all__ = ["EXAMPLES", "add_command", "completed_line", "run_rank"]

#: Command lines that the help shows.
EXAMPLES = (
    "matex run -n 4 train.py",
    "matex run -n 8 --checkpoint saved --report out --max-restarts 3 train.py --epochs 20",
)

_WIDTH = 88


def add_command(commands: Any) -> None:
    """Add ``run`` to the subparsers *commands*."""
    about = (
        "Run an unchanged Keras script on N ranks. batch_size in the script is the "
        "global batch: the result does not depend on N. Exit status 0 when training finished, "
        "75 when it was asked to stop (SIGTERM, SIGUSR1, Ctrl-C, --wall-time) and can be "
        "continued, 1 when it failed. In a job of Slurm SIGUSR2 has the ranks leave the nodes that "
        "are being drained."
    )
    faults = (
        "FAULT is KIND:key=value,... with keys rank, at, and step, time (seconds) or event. "
        "Kinds: "
        + "; ".join(f"{kind}: {text}" for kind, (text, _) in ft.KINDS.items())
        + f". at is one of {', '.join(ft.PHASES)}; event one of {', '.join(ft.EVENTS)}. "
        "Example: kill:rank=2,step=40"
    )
    only_here = [o.short or o.flag for o in options_of(LaunchOptions) if not o.variable]
    variables = (
        "The environment can give these options too (MATEX_SEED for --seed), but for "
        f"{', '.join(only_here)}."
    )
    examples = "examples:\n" + "\n".join(f"  {line}" for line in EXAMPLES)
    parser = commands.add_parser(
        "run",
        help="run a Keras script on several ranks",
        usage="matex run [-n N] [options] [-m] SCRIPT [arguments of the script]",
        description=f"{_filled(about)}\n\n{examples}",
        epilog=f"{_filled(faults)}\n\n{_filled(variables)}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        add_help=False,
    )
    _add_arguments(parser, LaunchOptions, Config)
    parser.set_defaults(parser=parser, act=_run)


def completed_line(argv: list[str]) -> list[str]:
    """Words after ``run`` of a command line, each option with its value. Pure."""
    return completed(argv, LaunchOptions, Config)


def run_rank(argv: list[str], commands: Sequence[str] = ()) -> int:
    """Run one rank started by mpiexec or srun; return its exit status.

    Args:
        argv: words of the command line.
        commands: names of the commands, of which *argv* begins with none.
    """
    parser = Parser(
        prog="python -m matex",
        usage="python -m matex [options] [-m] SCRIPT [arguments of the script]",
        description="One rank of a run that mpiexec or srun started, or, started by hand, a run "
        "of one rank. To start several, see: matex run --help",
        add_help=False,
    )
    _add_arguments(parser, ProgramOptions, Config)
    arguments = parser.parse(completed(argv, ProgramOptions, Config))
    config = _config(parser, arguments, commands)
    from matex.process.script_run import run_script

    return run_script(arguments.script, arguments.arguments, config, module=bool(arguments.module))


def _filled(text: str) -> str:
    return textwrap.fill(text, _WIDTH, break_on_hyphens=False)


def _add_arguments(parser: argparse.ArgumentParser, *tables: type) -> None:
    parser.add_argument("script", type=Path, help="a Keras script", metavar="SCRIPT")
    own = parser.add_argument(
        "arguments", nargs=argparse.REMAINDER, help="the script's own arguments"
    )
    own.required = False  # argparse would name them where SCRIPT is missing
    add_options(parser, *tables)


def _config(
    parser: argparse.ArgumentParser, arguments: argparse.Namespace, commands: Sequence[str] = ()
) -> Config:
    try:
        config = Config.from_words(given_words(arguments, Config))
    except (InputError, ft.UsageError) as error:
        parser.error(str(error))
    name = str(arguments.script)
    if arguments.module:
        if not _is_found(name):
            parser.error(f"a module is wanted. Received: {name}, which is not found")
    elif not arguments.script.is_file():
        wanted = (
            f"a Keras script or a command ({', '.join(commands)})" if commands else "a Keras script"
        )
        parser.error(f"{wanted} is wanted. Received: {name}, which is no file")
    return config


def _is_found(name: str) -> bool:
    """Whether ranks may find the module *name*, without importing its packages."""
    first = name.partition(".")[0]
    # The working directory comes first for ``python -m matex``, not for ``matex``.
    places = [str(Path.cwd()), *sys.path]
    return first in sys.builtin_module_names or PathFinder.find_spec(first, places) is not None


def _run(arguments: argparse.Namespace) -> int:
    from matex.launcher.launch import mpiexec_command
    from matex.launcher.supervisor import supervise

    parser: Parser = arguments.parser
    started = ft.started_by(os.environ)
    if started is not None and started.processes > 1:
        parser.error(
            f"matex run starts the ranks itself, so one process of it was wanted. Received: "
            f"{started.processes} by {started.launcher}; leave that out, or start ranks with it: "
            f"python -m matex SCRIPT"
        )
    config = _config(parser, arguments)
    try:
        options = make(LaunchOptions, words=given_words(arguments, LaunchOptions))
        given = names_given(Config, given_words(arguments, Config))
        if "memory_every" in given and not options.max_restarts:
            raise InputError(
                "--memory-every wants --max-restarts R, where it has an effect. "
                f"Received: --memory-every {config.memory_every:g} without it"
            )
        wanted = _launch(options, config, arguments.script, arguments.arguments)
    except (InputError, ft.UsageError) as error:
        parser.error(str(error))
    if idle := without_effect(LaunchOptions, Config):
        print(f"matex: variables without effect: {', '.join(idle)}", file=sys.stderr, flush=True)
    _say_what_is_left_out(options)
    if options.dry_run:
        print(*mpiexec_command(wanted, report=config.report or Path("REPORT"), mpiexec=_shown()))
        return 0
    try:
        return _compared(wanted) if options.compare else supervise(wanted)
    except InputError as error:
        parser.error(str(error))


def _say_what_is_left_out(options: LaunchOptions) -> None:
    """Say which part of a batch job has no ranks, unless *options* say where they start."""
    job = batch_job()
    if job is None or options.hosts is not None:
        return
    for sentence in (job.unused, job.step if options.ranks is None else ""):
        if sentence:
            print(f"matex: {sentence}", file=sys.stderr, flush=True)


def _compared(wanted: Launch) -> int:
    """Run *wanted*, and then its script by plain Keras; return the exit status of the run.

    Raises:
        InputError: the run cannot be started.
    """
    from matex.launcher.compare import compare_with_plain
    from matex.launcher.supervisor import supervise

    kept = wanted.config.report
    with tempfile.TemporaryDirectory(prefix="matex-") as scratch:
        report = kept or Path(scratch) / "report"
        status = supervise(
            dataclasses.replace(wanted, config=dataclasses.replace(wanted.config, report=report))
        )
        if status == 0:
            compare_with_plain(wanted, report, kept=kept is not None)
    return status


def _launch(options: LaunchOptions, config: Config, script: Path, words: list[str]) -> Launch:
    """Launch by *options*, in the batch job if there is one.

    Raises:
        InputError, ft.UsageError: that cannot be launched.
    """
    from matex.launcher.launch import Launch
    from matex.launcher.restarts import hosts_text, read_hosts

    job = batch_job()
    ranks = options.ranks or (job.ranks - config.spares if job else None)
    if ranks is None:
        raise InputError("-n N, the number of ranks, is wanted outside a batch job. Received: none")
    if options.grow and config.checkpoint is None:
        raise InputError(
            "--grow wants --checkpoint DIR, from which all ranks go on. Received: none"
        )
    if ranks < 1:
        raise InputError(f"--spares must leave a rank that works. Received: spares={config.spares}")
    replaced = options.grow or options.max_restarts > 0 or config.respawn > 0
    # Of text with blanks around its commas, mpiexec would take something else.
    given = None if options.hosts is None else hosts_text(read_hosts(options.hosts))
    hosts = given or (job.hosts if job else None)
    nodes = job.nodes if job else 1
    ft.check_faults(
        config.faults,
        ranks=ranks + config.spares,
        replaced=replaced,
        # Other hosts tell what they call themselves when the ranks meet.
        hosts={socket.gethostname()} if hosts is None and nodes == 1 else None,
    )
    return Launch(
        ranks=ranks,
        script=script,
        module=options.module,
        arguments=words,
        config=_with_workers(config, ranks),
        hosts=hosts,
        nodes=nodes,
        node_slots=job.slots if job else {},
        max_restarts=options.max_restarts,
        grow=options.grow,
        ulfm=options.ulfm,
    )


def _with_workers(config: Config, ranks: int) -> Config:
    """*config* with a number of virtual workers that later starts with fewer ranks keep."""
    if not config.deterministic or config.virtual:
        return config
    return dataclasses.replace(config, virtual=workers_for(ranks))


def _shown() -> Mpiexec:
    """This machine's mpiexec, or Open MPI's if there is none, by its short name."""
    from matex.launcher.mpiexec import Mpiexec, find_mpiexec

    try:
        kind = find_mpiexec().kind
    except InputError:
        return Mpiexec("mpiexec")
    return Mpiexec("mpiexec", kind)
