"""What was asked to be started, and the command line of it. Pure."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from matex.config import ARBITER, Config, duration_text
from matex.config.config import OPTIONS
from matex.launcher.mpiexec import Mpiexec

__all__ = ["Launch", "mpiexec_command", "rank_options"]


_PASSED = tuple(name for name in OPTIONS if name != "report")  # that one is always said


@dataclass(frozen=True, kw_only=True)
class Launch:
    """What ``matex run`` was asked to start.

    ``ranks`` are those that work, beside the spares of ``config``, which is that of all ranks;
    ``nodes`` is how many hosts there are, given here or by a batch system; ``max_restarts`` how
    often a run that was lost is started again; ``grow`` whether one that has lost ranks is, at
    a checkpoint; ``ulfm`` whether deaths are to be survived in place.
    """

    ranks: int
    script: Path
    arguments: Sequence[str]
    config: Config = field(default_factory=Config)
    hosts: str | None = None
    nodes: int = 1
    max_restarts: int = 0
    grow: bool = False
    ulfm: bool = True

    @property
    def processes(self) -> int:
        """Ranks that work, and spares."""
        return self.ranks + self.config.spares

    @property
    def several(self) -> bool:
        """Whether there is more than one host, or may be."""
        return self.hosts is not None or self.nodes > 1


def mpiexec_command(launch: Launch, *, report: Path, mpiexec: Mpiexec) -> list[str]:
    """The command line that starts the ranks. Pure.

    Raises:
        InputError: *mpiexec* cannot be told what *launch* wants.
    """
    survive = launch.ulfm and mpiexec.survives
    crowded = not launch.several and launch.processes > len(os.sched_getaffinity(0))
    words = [sys.executable, "-m", "matex", *rank_options(launch.config), "--report", str(report)]
    return mpiexec.start(
        [*words, str(launch.script), *launch.arguments],
        processes=launch.processes,
        hosts=launch.hosts,
        several=launch.several,
        survive=survive,
        crowded=crowded,
        passed=[ARBITER] if launch.several and survive else [],
    )


def rank_options(config: Config) -> list[str]:
    """The command line of a rank that is to have *config*."""
    options: list[str] = []
    default = Config()
    for name in _PASSED:
        value = getattr(config, name)
        if value is True:
            options.append(f"--{name.replace('_', '-')}")
        elif value != getattr(default, name):
            text = str(value.absolute() if isinstance(value, Path) else value)
            if name == "wall_time":
                text = duration_text(value)
            options += [f"--{name.replace('_', '-')}", text]
    for fault in config.inject:
        options += ["--inject", fault]
    return options
