"""The next start of a run that was lost: on which hosts, and with how many ranks."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from matex.checkpointing.host_memory import Places
from matex.launcher.arbiter import HostNames
from matex.launcher.exit_report import all_events, last_start, this_job
from matex.launcher.hosts import Hosts
from matex.launcher.launch import Launch
from matex.launcher.restarts import (
    drained_in,
    faults_left,
    hosts_text,
    members_of,
    read_hosts,
    silent_part_is_larger,
)
from matex.records.events import Event
from matex.records.starts import Start, starts_of

__all__ = ["Relaunch", "Survey", "take_fence"]


class Survey:
    """The hosts of a run that still answer, asked once, at first use."""

    def __init__(self, relaunch: Relaunch) -> None:
        self._relaunch = relaunch

    @cached_property
    def left(self) -> dict[str, int] | None:
        """Answering hosts and their slots; None if this host is the only one."""
        return self._relaunch.ask()

    @cached_property
    def lost(self) -> list[str]:
        """Names of the hosts that do not."""
        left = self.left
        return [] if left is None else [h for h in self._relaunch.all_hosts() if h not in left]


class Relaunch:
    """The possible further starts of a run after its first one.

    Args:
        wanted: the first start.
        report: directory with the files of the ranks.
        hosts: hosts of the run, and the means to run commands on them.
        places: directories in the memory of each host.
    """

    def __init__(self, wanted: Launch, report: Path, hosts: Hosts, places: Places | None) -> None:
        self._wanted = wanted
        self._report = report
        self._hosts = hosts
        self._places = places
        self._begun = time.monotonic()

    def all_hosts(self) -> dict[str, int]:
        """All hosts and their slots; empty if this host is the only one.

        Hosts that ranks have left on purpose are none of them, while there are others.
        """
        wanted = self._wanted
        if not wanted.several:
            return {}
        events = this_job(all_events(self._report))
        if wanted.hosts is not None:
            hosts = read_hosts(wanted.hosts)
        else:  # the batch system's: hosts on which ranks have met in this job
            starts = [event for event in events if event["event"] == "start"]
            hosts = dict(Counter({e["rank"]: e["host"] for e in starts}.values()))
        drained = self._drained(events)
        return {host: slots for host, slots in hosts.items() if host not in drained} or hosts

    def _drained(self, events: Sequence[Event]) -> set[str]:
        """Hosts that ranks have left on request in any of the starts in *events*."""
        found: set[str] = set()
        for start in starts_of(events):
            found |= drained_in(start.events, self._names_in(start).of)
        return found

    def _names_in(self, start: Start) -> HostNames:
        """Names of the hosts on which the ranks of *start* were started."""
        first = {} if self._wanted.hosts is None else read_hosts(self._wanted.hosts)
        return HostNames(first if start.begun is None else start.begun["hosts"] or {})

    def _gone(self, hosts: Collection[str]) -> set[str]:
        """Hosts of earlier starts that are none of *hosts*, as they call themselves."""
        gone: set[str] = set()
        for start in starts_of(this_job(all_events(self._report))):
            names = self._names_in(start)
            begun = (event for event in start.events if event["event"] == "start")
            gone |= {e["host"] for e in begun if names.of(e["rank"], e["host"]) not in hosts}
        return gone

    def ask(self) -> dict[str, int] | None:
        """Ask the hosts for :attr:`Survey.left`.

        It removes the segments of MPI that ranks of the lost start left in their memory.
        """
        hosts = self.all_hosts()
        if self._places is None:
            clear = ["true"]
        else:
            shutil.rmtree(self._places.segments, ignore_errors=True)
            clear = ["rm", "-rf", str(self._places.segments)]
        return {host: hosts[host] for host in self._hosts.run(hosts, clear)} if hosts else None

    def larger_part_is_silent(self, lost: Launch, survey: Survey) -> bool:
        """Whether ranks of the start *lost* may go on by themselves, unseen, as the larger part."""
        hosts = {} if lost.hosts is None else read_hosts(lost.hosts)
        members = members_of(last_start(all_events(self._report)), HostNames(hosts).of)
        return silent_part_is_larger(members, survey.lost)

    def on(self, hosts: dict[str, int] | None) -> Launch | None:
        """Next start, on *hosts*; None if there is no host for it."""
        wanted, config = self._wanted, self._wanted.config
        if hosts is not None:
            slots = sum(hosts.values())
            if not slots:
                return None
            ranks = min(wanted.ranks, slots)
            config = replace(config, spares=min(config.spares, slots - ranks))
            wanted = replace(wanted, ranks=ranks, hosts=hosts_text(hosts))
            if wanted.grow:  # to the number that there is room for
                config = replace(config, grow_to=ranks)
        fired = {event["fault"] for event in all_events(self._report) if event["event"] == "fault"}
        left = faults_left(
            config.faults,
            fired,
            ranks=wanted.ranks + config.spares,
            gone=set() if hosts is None else self._gone(hosts),
        )
        config = replace(config, inject=left, inject_file=None)
        if config.wall_time:
            left_s = config.wall_time - (time.monotonic() - self._begun)
            config = replace(config, wall_time=max(left_s, 1.0))
        return replace(wanted, config=config)

    def tidy(self, reason: str) -> None:
        """Remove files in the memory of other hosts, if a rank died or all left early.

        Ranks that all reached the end have removed them themselves.

        Args:
            reason: reason for the missing summary; "" if there is a summary.
        """
        if self._places is None or not self._wanted.several:
            return
        untidy = {"recovered", "restart", "stopped", "failed"}
        if reason or any(event["event"] in untidy for event in all_events(self._report)):
            self._hosts.run(self.all_hosts(), ["rm", "-rf", *map(str, self._places)])


def take_fence(directory: Path) -> str:
    """Refuse writers of an earlier start to *directory*, which was given up.

    Returns:
        Why they cannot be kept out, in words; "" where they are.
    """
    import checkpoints  # brings h5py, which a launcher rarely needs

    try:
        start, _ = checkpoints.Fence(directory, lambda: (0, 0)).newest()
        checkpoints.Fence(directory, lambda: (start + 1, 0)).check()
    except checkpoints.StorageError as error:
        return str(error)
    return ""
