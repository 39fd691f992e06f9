"""``matex run``, and ``python -m matex SCRIPT``, one rank of a run."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ft
from matex.cli.parser import Parser, count
from matex.config import Config, batch_job, duration_s, wants_ulfm
from matex.config.config import OPTIONS
from matex.config.lr_scaling import SCALINGS
from matex.config.validation import (
    APOPTOSIS,
    COMPRESSIONS,
    EXCHANGES,
    POLICIES,
    SHUFFLES,
    STRAGGLERS,
    STRATEGIES,
)
from matex.errors import InputError

if TYPE_CHECKING:
    from matex.launcher.mpiexec import Mpiexec

__all__ = ["add_command", "run_rank"]


def add_command(commands: Any) -> None:
    """Add ``run`` to the subparsers *commands*."""
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
    run.add_argument(
        "--max-restarts", type=count, default=0, metavar="R",
        help="start again, on the hosts that are left, when all ranks, the launcher or a host "
        "are lost: at most R times (default: 0)",
    )  # fmt: skip
    run.add_argument(
        "--grow", action="store_true",
        help="with --checkpoint: when ranks were lost, start all of them again at the next "
        "checkpoint",
    )  # fmt: skip
    run.add_argument("--dry-run", action="store_true", help="only print the mpiexec command")
    _add_rank_options(run)
    run.set_defaults(parser=run, act=_run)


def _run_texts() -> tuple[str, str]:
    return (
        "Run an unchanged Keras script on N ranks. batch_size in the script is the "
        "global batch: the result does not depend on N. Exit status 0 when training finished, "
        "75 when it was told to leave (SIGTERM, SIGUSR1, Ctrl-C, --wall-time) and can be "
        "continued, 1 when it failed.",
        "FAULT is KIND:key=value,... with keys rank, at, and step, time (seconds) or event. "
        "Kinds: "
        + "; ".join(f"{kind}: {text}" for kind, (text, _) in ft.KINDS.items())
        + f". at is one of {', '.join(ft.PHASES)}; event one of {', '.join(ft.EVENTS)}. "
        "Example: kill:rank=2,step=40",
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
        help="also save after each so many steps, and wait until it is written",
    )  # fmt: skip
    add(
        "--checkpoint-interval", type=float, metavar="SECONDS",
        help="save so often inside epochs (default: what pays, from cost and risk)",
    )  # fmt: skip
    add(
        "--checkpoint-part-mb", type=float, metavar="MB",
        help="several ranks write a checkpoint together, parts of at least so many megabytes each; "
        "0: one writes all (default: one rank a host, parts of 256)",
    )  # fmt: skip
    add("--keep", type=int, metavar="K", help="how many checkpoints to keep (default: 3)")
    add("--keep-every", type=int, metavar="STEPS", help="keep one of each so many steps, too")
    add("--keep-best", type=int, metavar="K", help="keep those of the K best epochs, too")
    add(
        "--monitor", metavar="[max:]NAME",
        help="what makes an epoch the best: lowest, or with max: highest (default: val_loss)",
    )  # fmt: skip
    add("--memory", type=Path, metavar="DIR", help=argparse.SUPPRESS)  # from --max-restarts
    add("--grow-to", type=int, metavar="N", help=argparse.SUPPRESS)  # from --grow
    add(
        "--memory-every", type=float, metavar="SECONDS",
        help="with --max-restarts: how often to save in the memory of each host (default: 5)",
    )  # fmt: skip
    add(
        "--spares", type=count, metavar="K",
        help="K more ranks wait, at no cost, and take the places of ranks that die (default: 0)",
    )  # fmt: skip
    add("--seed", type=int, help="seeds Keras, NumPy and Python before the script (default: 0)")
    add(
        "--inject", action="append", metavar="FAULT", help="set off a fault; may be given again"
    )  # fmt: skip
    add(
        "--inject-file", type=Path, metavar="PLAN.csv",
        help="set off the faults of a plan (see matex faults)",
    )  # fmt: skip
    add(
        "--hang-timeout", type=float, metavar="SECONDS",
        help="a rank without progress for so long ends itself (default: 600; in a step 100 times "
        "the measured one, at least 60)",
    )  # fmt: skip
    add(
        "--nonfinite", choices=POLICIES,
        help="when a rank computes a NaN or infinity: stop (default), skip its samples of that "
        "step, or recompute them once",
    )  # fmt: skip
    add(
        "--straggler", choices=STRAGGLERS,
        help="a rank that computes more than twice as long as the others: warn (default), evict, "
        "or balance: from then on as with --balance",
    )  # fmt: skip
    add(
        "--check-every", type=int, metavar="STEPS",
        help="compare the replicas' state and heal a minority; 0: never (default: as often as it "
        "costs a quarter of a percent)",
    )  # fmt: skip
    add(
        "--threads", type=int, metavar="T", help="TensorFlow threads of a rank (default: its share)"
    )
    add(
        "--exchange", choices=EXCHANGES,
        help="how gradients travel: an operation in C++, mpi4py, or auto (default): what is there",
    )  # fmt: skip
    add(
        "--apoptosis", choices=APOPTOSIS, metavar="MODE",
        help="let redundant units die while training: " + ", ".join(APOPTOSIS),
    )  # fmt: skip
    add(
        "--wall-time", type=_duration, metavar="HH:MM:SS",
        help="save and leave before so much time is over, with status 75",
    )  # fmt: skip
    add(
        "--strategy", choices=STRATEGIES,
        help="how ranks share the work of fit: sync (default) averages gradients in every step; "
        "gossip sends the model to one other rank in every step; daso averages nodes in every "
        "step and between nodes every four; easgd meets a centre every four steps; downpour pushes "
        "to a centre every four steps, and does not wait",
    )  # fmt: skip
    add(
        "--shuffle", choices=SHUFFLES,
        help="arrays and matex.data: whole (default) shuffles all samples anew for each epoch, and "
        "ranks read theirs; ring lets each rank keep its part in memory and hand it on to the "
        "next rank, while it computes",
    )  # fmt: skip
    add(
        "--ranks-per-node", type=int, metavar="K",
        help="with --strategy daso, or --two-level: K ranks in a row make a node (default: those "
        "of a host)",
    )  # fmt: skip
    add(
        "--sync-every", type=int, metavar="K",
        help="with --strategy easgd or downpour: steps between a rank's meetings with the centre "
        "(default: 4)",
    )  # fmt: skip
    add(
        "--two-level", action="store_true", default=None,
        help="with --strategy easgd or downpour: the ranks of a node meet a centre of their own, "
        "and the nodes' centres meet one above them",
    )  # fmt: skip
    add(
        "--outer-every", type=int, metavar="K",
        help="with --two-level: meetings of a node's ranks between two of its centre with the one "
        "above (default: 4)",
    )  # fmt: skip
    add(
        "--asynchronous", action="store_true", default=None,
        help="with --strategy easgd: ranks meet the centre in turn, and do not wait",
    )  # fmt: skip
    add(
        "--staleness-bound", type=int, metavar="S",
        help="with --strategy downpour: how many updates a push may be behind the centre; 0: all "
        "push at once (default: any number)",
    )  # fmt: skip
    add(
        "--momentum", type=float, metavar="M",
        help="with --strategy downpour: of the centre's updates, with what asynchrony adds by "
        "itself (default: 0)",
    )  # fmt: skip
    add(
        "--balance", action="store_true", default=None,
        help="measure the ranks, and let slow ones compute fewer samples of each batch",
    )  # fmt: skip
    add(
        "--batch-per-rank", action="store_true", default=None,
        help="batch_size in the script is that of each rank, not the global one",
    )  # fmt: skip
    add(
        "--lr-scaling", choices=SCALINGS,
        help="multiply the learning rate by the ranks (linear) or their square root (sqrt); "
        "with --batch-per-rank, or a strategy other than sync",
    )  # fmt: skip
    add(
        "--warmup-epochs", type=float, metavar="E",
        help="let that factor climb from 1 in so many epochs (default: 5)",
    )  # fmt: skip
    add(
        "--compression", choices=COMPRESSIONS,
        help="send gradients in 16 bits; what rounding takes is added to the next step's",
    )  # fmt: skip
    add(
        "--strict", action="store_true", default=None,
        help="status 1 when a rank was lost to an error of the script's own (an exception, an "
        "exit), also where the others finish",
    )  # fmt: skip
    add("script", type=Path, help="a Keras script")
    add("arguments", nargs=argparse.REMAINDER, help="the script's own arguments")


def _config(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> Config:
    given = {
        name: getattr(arguments, name) for name in OPTIONS if getattr(arguments, name) is not None
    }
    if arguments.inject:
        given["inject"] = tuple(arguments.inject)
    try:
        config = Config.from_environment(**given)
    except (InputError, ft.UsageError) as error:
        parser.error(str(error))
    if not arguments.script.is_file():
        parser.error(f"a Keras script is wanted. Received: {arguments.script}, which is no file")
    return config


def run_rank(argv: list[str]) -> int:
    """One rank of a run that mpiexec or srun started; its exit status."""
    parser = Parser(
        prog="python -m matex",
        description="One rank of a run that mpiexec or srun started, or, started by hand, a run "
        "of one rank. To start several, see: matex run --help",
    )
    _add_rank_options(parser)
    arguments = parser.parse_args(argv)
    config = _config(parser, arguments)
    from matex.process import run_script

    return run_script(arguments.script, arguments.arguments, config)


def _run(arguments: argparse.Namespace) -> int:
    from matex.launcher.launch import Launch, mpiexec_command
    from matex.launcher.restarts import read_hosts
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
        job, ulfm = batch_job(), wants_ulfm()
        if arguments.hosts is not None:
            read_hosts(arguments.hosts)
    except InputError as error:
        parser.error(str(error))
    ranks = arguments.ranks or (job.ranks - config.spares if job else None)
    if ranks is None:
        parser.error("-n N, the number of ranks, is wanted outside a batch job. Received: none")
    if arguments.grow and config.checkpoint is None:
        parser.error("--grow wants --checkpoint DIR, from which all ranks go on. Received: none")
    if ranks < 1:
        parser.error(f"--spares must leave a rank that works. Received: spares={config.spares}")
    try:
        replaced = arguments.grow or arguments.max_restarts > 0
        ft.check_faults(config.faults, ranks=ranks + config.spares, replaced=replaced)
    except ft.UsageError as error:
        parser.error(str(error))
    wanted = Launch(
        ranks=ranks,
        script=arguments.script,
        arguments=arguments.arguments,
        config=config,
        hosts=arguments.hosts or (job.hosts if job else None),
        nodes=job.nodes if job else 1,
        max_restarts=arguments.max_restarts,
        grow=arguments.grow,
        ulfm=ulfm,
    )
    if arguments.dry_run:
        print(*mpiexec_command(wanted, report=config.report or Path("REPORT"), mpiexec=_shown()))
        return 0
    try:
        return supervise(wanted)
    except InputError as error:
        parser.error(str(error))


def _shown() -> Mpiexec:
    """The mpiexec of this machine, or Open MPI's where there is none, by its short name."""
    from matex.launcher.mpiexec import Mpiexec, find_mpiexec

    try:
        kind = find_mpiexec().kind
    except InputError:
        return Mpiexec("mpiexec")
    return Mpiexec("mpiexec", kind)


def _duration(text: str) -> float:
    try:
        return duration_s(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


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
