"""The launch that the user asked for, and its command line. Pure."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from matex.config import ARBITER, HASH_SEED, Config
from matex.config.given import given_in_environment
from matex.config.kinds import SWITCH, WORDS
from matex.config.option import options_of
from matex.config.options import AS_MANY_AS_ARE_LOST
from matex.errors import InputError
from matex.launcher.mpiexec import Mpiexec
from matex.launcher.restarts import hosts_text, read_hosts, spread_over

__all__ = ["Launch", "check_survival", "mpiexec_command", "rank_options"]


@dataclass(frozen=True, kw_only=True)
class Launch:
    """The launch that ``matex run`` was asked for.

    ``ranks`` is the number of ranks that work, beside the spares of ``config``, which all ranks
    use; ``module`` says whether ``script`` is the name of a module; ``nodes`` is the number of
    hosts, given here or by a batch system, and ``node_slots`` how many ranks this has for each, by
    the name that it calls it, if it says so;
    ``max_restarts`` the number of times that a lost run is started again; ``grow`` says whether a
    run that has lost ranks is started again at a checkpoint; ``ulfm`` whether deaths are to be
    survived in place.
    """

    ranks: int
    script: Path
    arguments: Sequence[str]
    module: bool = False
    config: Config = field(default_factory=Config)
    hosts: str | None = None
    nodes: int = 1
    node_slots: Mapping[str, int] = field(default_factory=dict)
    max_restarts: int = 0
    grow: bool = False
    ulfm: bool = True

    @property
    def slots(self) -> Mapping[str, int]:
        """Slots of the hosts, by the names that mpiexec takes; empty where only it knows them."""
        return self.node_slots if self.hosts is None else read_hosts(self.hosts)

    @property
    def program(self) -> list[str]:
        """Words of a command line that name the program and its arguments, as for Python."""
        return [*(["-m"] if self.module else []), str(self.script), *self.arguments]

    @property
    def processes(self) -> int:
        """Ranks that work, and spares."""
        return self.ranks + self.config.spares

    @property
    def cold(self) -> int:
        """The number of processes that wait to take the places of the dead.

        On one host none needs to: a process can be started when it is wanted.
        """
        if not (self.spread and self.ulfm and self.config.respawn):
            return 0
        if self.config.respawn == AS_MANY_AS_ARE_LOST:
            return self.processes
        return self.config.respawn

    @property
    def several(self) -> bool:
        """Whether there are or may be several hosts."""
        return self.hosts is not None or self.nodes > 1

    @property
    def spread(self) -> bool:
        """Whether ranks may be on several hosts, of which one can fall silent.

        After a restart on the hosts that are left it may be one.
        """
        return self.nodes > 1 if self.hosts is None else len(read_hosts(self.hosts)) > 1


def check_survival(wanted: Launch, mpiexec: Mpiexec) -> None:
    """Refuse options that need ULFM if there is none. Pure.

    Raises:
        InputError: spares were wanted, which take the place of the dead in a running job.
    """
    for name in ("spares", "respawn"):
        if getattr(wanted.config, name) and not mpiexec.survives:
            raise InputError(
                f"--{name} wants Open MPI 5, whose ULFM lets others take the place of dead ranks. "
                f"Received: {mpiexec.kind.value} ({mpiexec.path})"
            )


def mpiexec_command(launch: Launch, *, report: Path, mpiexec: Mpiexec) -> list[str]:
    """The command line that starts the ranks. Pure.

    Raises:
        InputError: *mpiexec* has no option for a part of *launch*.
    """
    survive = launch.ulfm and mpiexec.survives
    crowded = not launch.several and launch.processes > len(os.sched_getaffinity(0))
    config = replace(launch.config, cold=launch.cold if survive else 0)
    waiting = spread_over(launch.slots, config.cold)
    # Of nodes that only some processes name, mpiexec would take those alone for the others too.
    hosts = hosts_text(launch.slots) if waiting else launch.hosts
    words = [sys.executable, "-m", "matex", *rank_options(config), "--report", str(report)]
    return mpiexec.start(
        [*words, *launch.program],
        processes=launch.processes,
        waiting=config.cold,
        hosts=hosts,
        waiting_hosts=waiting,
        several=launch.several,
        spread=launch.spread,
        survive=survive,
        crowded=crowded,
        passed=[HASH_SEED, *([ARBITER] if survive else [])] if launch.several else [],
    )


def rank_options(config: Config) -> list[str]:
    """Command line options of a rank with *config*, without its report.

    An option that is not the default is said, and one whose variable is set here: the ranks may
    have that variable too, and the command line was stronger.
    """
    words: list[str] = []
    for option in options_of(Config):
        value = getattr(config, option.attribute)
        plain = value == option.default and given_in_environment(option) is None
        if plain or value is None or value is False:
            continue
        if not option.flag or option.name == "report":
            continue
        if option.kind is SWITCH:
            words += [option.flag]
        elif option.kind is WORDS:
            words += [word for text in value for word in (option.flag, text)]
        else:
            words += [option.flag, option.kind.write(value)]
    return words
