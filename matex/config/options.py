"""Table of options: one row each, from which every other use of an option is derived.

The command line and its help, environment variables, keywords of ``matex.init``, checks of types
and ranges, the options that ``matex run`` passes to its ranks, and the reference page are made of
these rows. The meaning of an option together with others is in :mod:`matex.config.validation`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from matex.config.compressions import COMPRESSIONS
from matex.config.kinds import COMPRESSION, FINITE, MONITOR, OPTIMIZER, TIME
from matex.config.option import check_values, option

__all__ = [
    "APOPTOSIS_MODES",
    "AS_MANY_AS_ARE_LOST",
    "GROUPS",
    "OWN_ROWS",
    "STRATEGIES",
    "LaunchOptions",
    "ProgramOptions",
    "RankOptions",
]

#: Names of :data:`matex.apoptosis.schedule.MODES`.
APOPTOSIS_MODES = ("conservative", "natural", "aggressive", "adaptive")
#: Names of the strategies of :mod:`matex.strategies`.
STRATEGIES = ("sync", "gossip", "daso", "easgd", "downpour")

COMMON = "common options"
CHECKPOINTS = "checkpoints"
FAILURES = "failures and their signs"
WORK = "sharing the work"
DIVERGING = "strategies other than sync"
LARGE_BATCHES = "large batches"
INJECTION = "fault injection"
PLACE = "this machine"

#: The titles under which options are shown, in that order.
GROUPS = (COMMON, CHECKPOINTS, FAILURES, WORK, DIVERGING, LARGE_BATCHES, INJECTION, PLACE)

_SYNC = ("sync",)
_CENTRE = ("easgd", "downpour")
#: ``--respawn`` without a number.
AS_MANY_AS_ARE_LOST = 1_000_000
_FORMS = ",".join(row.form for row in COMPRESSIONS.values())
#: Why shares of a batch are equal there.
OWN_ROWS = "elsewhere each rank's own rows make its update"


# fmt: off
@dataclass(frozen=True, kw_only=True)
class ProgramOptions:
    """Options of a command line about the program that it runs."""

    module: bool = option(
        False, "", "SCRIPT is the name of a module or a package, which is run as python -m runs it",
        COMMON, short="-m", variable="")


@dataclass(frozen=True, kw_only=True)
class LaunchOptions(ProgramOptions):
    """Options of ``matex run`` about starting the ranks."""

    ranks: int | None = option(
        None, "N", "how many ranks", COMMON, least=1, short="-n", variable="",
        default_text="in a Slurm, PBS or LSF job, what it was given")
    hosts: str | None = option(
        None, "a:2,b:2", "hosts and their slots", COMMON, variable="",
        default_text="those of the batch job, else this one")
    max_restarts: int = option(
        0, "R", "start again, on the hosts that are left, when all ranks, the launcher or a host "
        "are lost: at most R times", COMMON, least=0, variable="", default_text="0")
    grow: bool = option(
        False, "", "when ranks were lost, start all of them again at the next checkpoint",
        FAILURES, condition="with --checkpoint", variable="")
    ulfm: bool = option(
        True, "", "0 starts the ranks so that a death ends them all, as an MPI without ULFM does",
        FAILURES, flag="", default_text="1")
    compare: bool = option(
        False, "", "afterwards run the script in one process by plain Keras, and print the largest "
        "relative difference of each value that fit logged; what the script writes then is "
        "thrown away", COMMON, variable="")
    dry_run: bool = option(False, "", "only print the mpiexec command", PLACE, variable="")

    def __post_init__(self) -> None:
        check_values(self)


@dataclass(frozen=True, kw_only=True)
class RankOptions:
    """Options of each rank of a run; equal on all of them."""

    checkpoint: Path | None = option(
        None, "DIR", "save checkpoints here, and continue from the newest valid one in it", COMMON)
    report: Path | None = option(
        None, "DIR", "write events, logs, a trace, curves for TensorBoard and summary.json here",
        COMMON)
    spares: int = option(
        0, "K", "K more ranks wait, at no cost, and take the places of ranks that die", COMMON,
        least=0, default_text="0", strategies=_SYNC,
        why="a spare takes over a state that all ranks share")
    respawn: int = option(
        0, "[N]", "start a process in the place of each rank that dies, while the others train on; "
        "at most N of them, or as many as are lost", COMMON, least=0, default_text="0",
        strategies=_SYNC, why="a new rank takes over a state that all ranks share",
        alone=AS_MANY_AS_ARE_LOST)
    wall_time: float = option(
        0.0, "HH:MM:SS", "save and leave before so much time is over, with status 75", COMMON,
        kind=TIME)
    seed: int = option(
        0, "S", "seeds Keras, NumPy and Python before the script runs", COMMON,
        least=0, below=2**32, default_text="0")

    checkpoint_every: int = option(
        0, "STEPS", "also save after each so many steps, and wait until it is written; 0: at the "
        "ends of epochs only", CHECKPOINTS, least=0, unit="steps")
    checkpoint_interval: float = option(
        0.0, "SECONDS", "time between two saves inside epochs", CHECKPOINTS, least=0,
        unit="seconds", default_text="Daly's, from what a checkpoint costs and how seldom all "
        "ranks are lost")
    checkpoint_part_mb: float | None = option(
        None, "MB", "several ranks write a checkpoint together, parts of at least so many "
        "megabytes each; 0: one writes all", CHECKPOINTS, least=0, unit="MB",
        default_text="one rank a host, parts of 256")
    keep: int = option(3, "K", "how many of the newest checkpoints are kept", CHECKPOINTS, least=1)
    keep_every: int = option(
        0, "STEPS", "one checkpoint of each so many steps is kept, too", CHECKPOINTS, least=0,
        unit="steps")
    keep_best: int = option(
        0, "K", "the checkpoints of the K best epochs are kept, too", CHECKPOINTS, least=0)
    monitor: str = option(
        "val_loss", "[max:]NAME", "what makes an epoch the best: the lowest, or with max: the "
        "highest, of the logs at its end", CHECKPOINTS, kind=MONITOR, condition="with --keep-best")
    memory: Path | None = option(
        None, "DIR", "a directory in the memory of each host, for checkpoints that outlive the "
        "processes; given by matex run with --max-restarts or --respawn", CHECKPOINTS, hidden=True)
    memory_every: float = option(
        5.0, "SECONDS", "how often to save in the memory of each host", CHECKPOINTS,
        condition="with --max-restarts", above=0, unit="seconds", default_text="5")

    hang_timeout: float | None = option(
        None, "SECONDS", "a rank without progress for so long ends itself", FAILURES, above=0,
        unit="seconds", default_text="600; in a step 100 times the measured one, at least 60")
    nonfinite: str = option(
        "stop", "", "when a rank computes a NaN or infinite gradient: stop, skip its samples of "
        "that step, or recompute them once", FAILURES, choices=("stop", "skip", "recompute"))
    straggler: str = option(
        "warn", "", "a rank that computes more than twice as long as the others: warn, evict, or "
        "balance: from then on as with --balance", FAILURES, choices=("warn", "evict", "balance"))
    check_every: int | None = option(
        None, "STEPS", "compare the replicas' state, and heal a minority; 0: never", FAILURES,
        least=0, unit="steps", default_text="as often as it costs a quarter of a percent")
    strict: bool = option(
        False, "", "status 1 when a rank was lost to an error of the script's own (an exception, "
        "an exit), also where the others finish", FAILURES)
    grow_to: int = option(
        0, "N", "how many ranks there should be: where fewer are left, they leave at a checkpoint "
        "to be started again with the others; given by matex run --grow", FAILURES, least=0,
        hidden=True)
    cold: int = option(
        0, "K", "how many of the processes wait, with nothing imported, until a rank dies; given "
        "by matex run --respawn on several hosts", FAILURES, least=0, hidden=True)
    shown_ranks: int = option(
        0, "N", "the number of ranks of which progress bars on a terminal show how many live; "
        "given by matex run where its output is a terminal", FAILURES, least=0, hidden=True)
    shown_columns: int = option(
        0, "COLUMNS", "the width of that terminal; given by matex run", FAILURES, least=0,
        hidden=True, default_text="not known")
    redirected: bool = option(
        False, "", "standard output is shown on no terminal, whatever mpiexec gives the ranks; "
        "given by matex run where its own is none", FAILURES, hidden=True)
    start_number: int = option(
        0, "N", "the number of this start of the ranks, which events have; given by matex run",
        FAILURES, least=0, hidden=True, default_text="not known")
    standard_input: str | None = option(
        None, "KIND:ADDRESS", "where ranks read the standard input of matex run, which gives this",
        FAILURES, hidden=True)

    strategy: str = option(
        "sync", "", "how ranks share the work of fit: sync averages gradients in every step; "
        "gossip sends the model to one other rank in every step; daso averages gradients inside "
        "nodes in every step, and models between nodes every four; easgd meets a centre every four "
        "steps; downpour pushes to a centre every four steps, and does not wait",
        WORK, choices=STRATEGIES)
    balance: bool = option(
        False, "", "measure the ranks, and let slow ones compute fewer samples of each batch",
        WORK, strategies=_SYNC, why=OWN_ROWS)
    share_loops: str = option(
        "proved", "", "functions of tf.function that train, in custom loops: proved "
        "shares the rows of their batches where a separability check shows that they add up, "
        "never lets every rank compute them whole", WORK, choices=("proved", "never"))
    shuffle: str = option(
        "whole", "", "arrays and matex.data: whole shuffles all samples, by the script's seed "
        "as plain Keras does, and ranks read theirs; ring lets each rank keep its part in memory "
        "and hand it on to the next rank, while it computes", WORK, choices=("whole", "ring"))
    sync_batchnorm: bool = option(
        False, "", "every BatchNormalization normalises by the rows of all ranks, as it does in "
        "plain Keras; without it those do that are made with synchronized=True, and the others by "
        "the rows of their rank", WORK, strategies=_SYNC, why=OWN_ROWS)
    deterministic: bool = option(
        False, "", "one set of bits: weights follow from the script, the seed and the number of "
        "virtual workers alone, not from ranks, deaths, spares, shares or restarts; validation, "
        "and steps that virtual workers cannot share, are computed whole on every rank", WORK,
        strategies=_SYNC, why="elsewhere the ranks' replicas differ")
    virtual: int = option(
        0, "V", "virtual workers that share each batch; kept in checkpoints", WORK, least=0,
        below=4097, condition="with --deterministic",
        default_text="the smallest power of two that is at least the ranks")
    compression: str = option(
        "none", f"{{{_FORMS}}}", "gradients travel in fewer bits between "
        "hosts, or between ranks of one host, or as factors of rank R; what rounding takes is "
        "added to the next step's. With gossip: models travel so", WORK, kind=COMPRESSION,
        strategies=(*_SYNC, "gossip"), why="daso always sends bf16, and centres add up as they are")
    apoptosis: str = option(
        "", "MODE", "let redundant units die while training: " + ", ".join(APOPTOSIS_MODES), WORK,
        choices=("", *APOPTOSIS_MODES), strategies=_SYNC,
        why="all ranks must remove the same units")

    ranks_per_node: int = option(
        0, "K", "K ranks in a row make a node", DIVERGING, least=0, strategies=("daso", *_CENTRE),
        two_level=_CENTRE,
        condition="with --strategy daso, or --two-level", default_text="those of a host")
    sync_every: int | None = option(
        None, "K", "steps between a rank's meetings with the centre", DIVERGING, least=1,
        default_text="4", strategies=_CENTRE)
    two_level: bool = option(
        False, "", "the ranks of a node meet a centre of their own, and the nodes' centres meet "
        "one above them", DIVERGING, strategies=_CENTRE)
    outer_every: int | None = option(
        None, "K", "meetings of a node's ranks between two of its centre with the one above",
        DIVERGING, least=2, condition="with --two-level", default_text="4", strategies=_CENTRE,
        two_level=_CENTRE)
    asynchronous: bool = option(
        False, "", "ranks meet the centre in turn, and do not wait", DIVERGING,
        strategies=("easgd",))
    elastic_force: float | None = option(
        None, "F", "force of all ranks together between them and the centre (beta of "
        "arXiv:1412.6651); each of R ranks has F / R (alpha)", DIVERGING, above=0, below=1,
        default_text="0.9", strategies=("easgd",))
    staleness_bound: int | None = option(
        None, "S", "how many updates a push may be behind the centre; 0: all push at once",
        DIVERGING, least=0, default_text="any number", strategies=("downpour",))
    momentum: float = option(
        0.0, "M", "total momentum of the centre, that which asynchrony brings by itself included",
        DIVERGING, least=0, below=1, default_text="0", strategies=("downpour",))
    centre_optimizer: str | None = option(
        None, "NAME[:KEY=VALUE,...]", "the centre moves by an optimizer of Keras, to which what "
        "ranks push is a gradient, such as adagrad:learning_rate=0.01", DIVERGING, kind=OPTIMIZER,
        default_text="pushes are added as they are", strategies=("downpour",))

    batch_per_rank: bool = option(
        False, "", "the script's batch_size is that of each rank, not the global one",
        LARGE_BATCHES)
    lr_scaling: str = option(
        "none", "", "multiply the learning rate by the number of ranks (linear) or its square root "
        "(sqrt); daso counts nodes, but ranks with --batch-per-rank; wants --batch-per-rank or a "
        "strategy other than sync", LARGE_BATCHES,
        choices=("none", "linear", "sqrt"))
    warmup_epochs: float = option(
        5.0, "E", "epochs in which the factor of --lr-scaling climbs from 1", LARGE_BATCHES,
        kind=FINITE, least=0, unit="epochs", default_text="5")

    inject: tuple[str, ...] = option(
        (), "FAULT", "set off a fault; may be given again", INJECTION)
    inject_file: Path | None = option(
        None, "PLAN.csv", "set off the faults of a plan (see matex faults)", INJECTION)

    threads: int = option(
        0, "T", "TensorFlow threads of a rank", PLACE, least=0,
        default_text="its share of the host's cores")
    exchange: str = option(
        "auto", "", "how gradients travel: native (an operation in C++), host (through mpi4py), or "
        "auto: native where it can be had", PLACE, choices=("auto", "native", "host"))
    exchange_plan: str = option(
        "auto", "", "how gradients are summed: flat (one allreduce), slices (each rank of a host "
        "exchanges a part with the other hosts), or auto: on several hosts what is faster in a "
        "trial at the start",
        PLACE, choices=("auto", "flat", "slices"))
    cache: Path | None = option(
        None, "DIR", "the native exchange is kept here once it is built", PLACE, flag="",
        default_text="~/.cache/matex")

    def __post_init__(self) -> None:
        check_values(self)
# fmt: on
