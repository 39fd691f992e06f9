"""One frozen configuration, from options that are given and from the environment."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import ft
from matex.config.durations import duration_s
from matex.config.environment import user_cache, variable
from matex.config.validation import check
from matex.errors import InputError

__all__ = ["OPTIONS", "Config", "read_plan"]


@dataclass(frozen=True, kw_only=True)
class Config:
    """What a run is told from outside. All ranks must be given equal values.

    Args:
        report: directory for events, logs and the summary; none are written without it.
        checkpoint: directory of checkpoints; a run continues from the newest valid one in it.
        checkpoint_every: steps between checkpoints inside an epoch; 0 means at epoch ends only.
        checkpoint_interval: seconds between checkpoints inside an epoch; 0 finds out how many
            pay, from what one costs and how seldom all ranks are lost.
        checkpoint_part_mb: a checkpoint of more than two parts of so many megabytes is written by
            several ranks, each a part of its one file; 0 leaves all to one. None for parts of
            256 MB, one a host.
        keep: how many of the newest checkpoints are kept.
        keep_every: of each so many steps one checkpoint is kept, too; 0 for none.
        keep_best: how many with the lowest ``monitor`` are kept, too.
        monitor: of the logs at an epoch's end; ``max:NAME`` for one that should be high.
        memory: directory in the memory of each host (``/dev/shm``) for checkpoints that
            outlive the processes; ``matex run --max-restarts`` gives it.
        memory_every: seconds between those.
        seed: seeds Keras, NumPy and Python before the script runs, alike on all ranks.
        spares: how many of the ranks wait in reserve while a fit trains.
        inject: faults, as written on the command line.
        inject_file: a CSV plan of further faults.
        hang_timeout: seconds without progress after which a rank ends itself; None for 600, and
            within a step for a hundred times the measured one, 60 at least.
        threads: TensorFlow threads of a rank; 0 divides the host's cores among its ranks.
        nonfinite: what becomes of a step in which a rank computed a NaN or an infinity: "stop",
            "recompute", or "skip" that rank's samples.
        straggler: what becomes of a rank that computes twice as long as the others: "warn",
            "evict", or "balance" from then on.
        check_every: steps between comparisons of the replicas' state; 0 for none, None for as
            many as make them cost a quarter of a percent.
        exchange: how gradients travel: "native" (an operation in C++), "host" (through
            mpi4py), or "auto" for native where it can be had.
        apoptosis: mode in which every fit's model shrinks; "" for not at all.
        grow_to: how many ranks there should be: where fewer are left, they leave at a checkpoint
            to be started again with the others; ``matex run --grow`` gives it. 0: never.
        wall_time: seconds after which the run must be over: it saves and leaves a little
            before. 0 means never; written ``HH:MM:SS`` or ``D-HH:MM:SS``.
        strategy: how ranks share the work of a fit, one of ``STRATEGIES``.
        shuffle: how epochs of rows by number differ: "whole" shuffles all anew, and each rank reads
            its rows; in a "ring" each rank keeps those of its part in memory, shuffles it, and
            hands it on to the next rank.
        ranks_per_node: of how many ranks a node is made for daso and two levels; 0 goes by hosts.
        sync_every: steps after which a rank meets the centre of easgd and downpour again; 0 for 4.
        two_level: the ranks of a node meet a centre of their node in easgd and downpour, and these
            meet one above them.
        outer_every: meetings of a node's ranks between two of its centre with the one above; 0
            for 4.
        asynchronous: ranks meet the centre of easgd in turn, without waiting for each other.
        staleness_bound: how many updates a push of downpour may be behind the centre; 0 lets all
            push at once. None for any.
        momentum: of the updates of downpour's centre, with that which asynchrony brings.
        balance: measure the ranks, and give slow ones fewer samples of each batch.
        batch_per_rank: the script's batch size is that of each rank, so the global batch is
            as many times larger as there are ranks, and shrinks when one dies.
        lr_scaling: by what the learning rate is multiplied then, and where a strategy lets each
            rank update by its own rows, one of ``SCALINGS``.
        warmup_epochs: in which that factor climbs from 1.
        strict: a rank that is lost to an error of the script's own makes the run a failed one,
            with status 1, though the others finish it.
        compression: numbers of 16 bits in which gradients travel, or "none" for 32.
        cache: directory where the native exchange is kept once it is built.
    """

    report: Path | None = None
    checkpoint: Path | None = None
    checkpoint_every: int = 0
    checkpoint_interval: float = 0.0
    checkpoint_part_mb: float | None = None
    keep: int = 3
    keep_every: int = 0
    keep_best: int = 0
    monitor: str = "val_loss"
    memory: Path | None = None
    memory_every: float = 5.0
    seed: int = 0
    spares: int = 0
    inject: tuple[str, ...] = ()
    inject_file: Path | None = None
    hang_timeout: float | None = None
    threads: int = 0
    nonfinite: str = "stop"
    straggler: str = "warn"
    check_every: int | None = None
    exchange: str = "auto"
    apoptosis: str = ""
    grow_to: int = 0
    wall_time: float = 0.0
    strategy: str = "sync"
    shuffle: str = "whole"
    ranks_per_node: int = 0
    sync_every: int = 0
    two_level: bool = False
    outer_every: int = 0
    asynchronous: bool = False
    staleness_bound: int | None = None
    momentum: float = 0.0
    balance: bool = False
    batch_per_rank: bool = False
    lr_scaling: str = "none"
    warmup_epochs: float = 5.0
    compression: str = "none"
    strict: bool = False
    cache: Path | None = None

    def __post_init__(self) -> None:
        check(self)
        _ = self.faults

    @cached_property
    def faults(self) -> tuple[ft.Fault, ...]:
        """The injected faults, parsed: the single ones, then those of the plan."""
        single = tuple(ft.parse_fault(text) for text in self.inject)
        return single + (() if self.inject_file is None else read_plan(self.inject_file))

    @property
    def cache_directory(self) -> Path:
        """The given one, else the user's own as the XDG specification has it."""
        return self.cache or user_cache() / "matex"

    @classmethod
    def from_environment(cls, **given: Any) -> Config:
        """``MATEX_<FIELD>`` variables, overridden by *given*; ``MATEX_INJECT`` splits at blanks."""
        values: dict[str, Any] = {}
        for field in fields(cls):
            text = variable(f"MATEX_{field.name.upper()}")
            if text is not None and field.name not in given:
                values[field.name] = _read(field.name, text)
        try:
            return replace(cls(), **values, **given)
        except TypeError:
            known = ", ".join(field.name for field in fields(cls))
            raise InputError(f"options are {known}. Received: {', '.join(given)}") from None


def read_plan(path: Path) -> tuple[ft.Fault, ...]:
    """The fault plan in the CSV file *path*.

    Raises:
        InputError: it cannot be read.
        ft.FaultSyntaxError: naming the line that is wrong.
    """
    try:
        return ft.read_plan(path.read_text().splitlines(), name=str(path))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise InputError(f"a fault plan must be a CSV file. Received: {path}: {reason}") from None


_KINDS: dict[str, Any] = {
    "report": Path,
    "checkpoint": Path,
    "checkpoint_every": int,
    "checkpoint_interval": float,
    "checkpoint_part_mb": float,
    "keep": int,
    "keep_every": int,
    "keep_best": int,
    "monitor": str,
    "memory": Path,
    "memory_every": float,
    "seed": int,
    "spares": int,
    "inject": lambda text: tuple(text.split()),
    "inject_file": Path,
    "hang_timeout": float,
    "threads": int,
    "nonfinite": str,
    "straggler": str,
    "check_every": int,
    "exchange": str,
    "apoptosis": str,
    "grow_to": int,
    "wall_time": duration_s,
    "strategy": str,
    "shuffle": str,
    "ranks_per_node": int,
    "sync_every": int,
    "two_level": lambda text: bool(int(text)),
    "outer_every": int,
    "asynchronous": lambda text: bool(int(text)),
    "staleness_bound": int,
    "momentum": float,
    "balance": lambda text: bool(int(text)),
    "batch_per_rank": lambda text: bool(int(text)),
    "lr_scaling": str,
    "warmup_epochs": float,
    "compression": str,
    "strict": lambda text: bool(int(text)),
    "cache": Path,
}

# What the command line takes under the same name, once; with one value, or as a flag.
OPTIONS = tuple(name for name in _KINDS if name not in ("inject", "cache"))


def _read(name: str, text: str) -> Any:
    try:
        return _KINDS[name](text)
    except ValueError:
        wanted = "a time HH:MM:SS" if name == "wall_time" else "a number"
        raise InputError(
            f"environment variable MATEX_{name.upper()} must be {wanted}. Received: {text!r}"
        ) from None
