"""The next start of a run that was lost: on which hosts, and with how many ranks."""

from __future__ import annotations

import json
import shutil
import signal
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from matex.launcher.exit_report import all_events, last_start, this_job
from matex.launcher.host_memory import HostMemoryDirectories
from matex.launcher.host_names import HostNames, identity_in, says_who
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
from matex.records.starts import starts_of
from matex.records.summary import SUMMARY

__all__ = ["Relaunch", "Survey", "take_fence"]

_BY_A_RANK = f"({signal.SIGTERM.name})"  # a reason's end, where the launcher was told nothing


class Survey:
    """The hosts of a run that still answer, asked once, at first use."""

    def __init__(self, relaunch: Relaunch) -> None:
        self._relaunch = relaunch

    @cached_property
    def answers(self) -> dict[str, tuple[str, str] | None] | None:
        """Name of each answering host, and who it is; None if this host is the only one."""
        return self._relaunch.ask()

    @cached_property
    def left(self) -> dict[str, int] | None:
        """Answering hosts and their slots; None if this host is the only one."""
        answers, hosts = self.answers, self._relaunch.all_hosts()
        return None if answers is None else {h: n for h, n in hosts.items() if h in answers}

    @cached_property
    def lost(self) -> list[str]:
        """Names of the hosts that do not."""
        left = self.left
        return [] if left is None else [h for h in self._relaunch.all_hosts() if h not in left]


class Relaunch:
    """The possible further starts of a run after its first one; ``names`` are those of its hosts.

    Args:
        wanted: the first start.
        report: directory with the files of the ranks.
        hosts: hosts of the run, and the means to run commands on them.
        memory: directories in the memory of each host.
    """

    def __init__(
        self,
        wanted: Launch,
        report: Path,
        hosts: Hosts,
        memory: HostMemoryDirectories | None,
    ) -> None:
        self._wanted = wanted
        self._report = report
        self._hosts = hosts
        self.names = HostNames(wanted.slots)
        self._memory = memory
        self._asked: set[str] = set()  # who they are; those that did not answer are not asked again
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
            met = {event["rank"]: event["host"] for event in events if event["event"] == "start"}
            hosts = dict(Counter(self._called(host) for host in met.values()))
        drained = self._drained(events)
        return {host: slots for host, slots in hosts.items() if host not in drained} or hosts

    def _called(self, host: str) -> str:
        """Name of what calls itself *host*; this one, where none is known."""
        return next(iter(self._names_of(host)), host)

    def _names_of(self, host: str) -> list[str]:
        """Names of what calls itself *host*; hosts that have not said who they are, are asked."""
        found = self.names.of(host)
        if not found and (unasked := [n for n in self.names.silent if n not in self._asked]):
            self._asked.update(unasked)
            self.names.learn(_machines(self._hosts.ask(unasked, says_who(["true"]))))
            found = self.names.of(host)
        return found

    def _drained(self, events: Sequence[Event]) -> set[str]:
        """Hosts that ranks have left on request in any of the starts in *events*."""
        drained = {host for start in starts_of(events) for host in drained_in(start.events)}
        return {name for host in drained for name in self._names_of(host)}

    def _gone(self, hosts: Collection[str]) -> set[str]:
        """Hosts, by their own names, that had ranks in earlier starts and are none of *hosts*."""
        begun = (e for e in this_job(all_events(self._report)) if e["event"] == "start")
        met = {event["host"] for event in begun}
        return {host for host in met if not set(hosts).intersection(self._names_of(host))}

    def ask(self) -> dict[str, tuple[str, str] | None] | None:
        """Ask the hosts for :attr:`Survey.answers`.

        It removes the segments of MPI that ranks of the lost start left in their memory.
        """
        hosts = self.all_hosts()
        if self._memory is None:
            clear = ["true"]
        else:
            shutil.rmtree(self._memory.segments, ignore_errors=True)
            clear = ["rm", "-rf", str(self._memory.segments)]
        outputs = self._hosts.ask(hosts, says_who(clear)) if hosts else {}
        if self._memory is not None:
            self._memory.hold()
        if not hosts:
            return None
        self._asked.update(hosts)
        machines = _machines(outputs)
        self.names.learn(machines)
        return {host: machines.get(host) for host in outputs}

    def larger_part_is_silent(self, survey: Survey) -> bool:
        """Whether ranks of the last start may go on by themselves, unseen, as the larger part."""
        if survey.answers is None or not survey.lost:
            return False
        heard = [machine for machine in survey.answers.values() if machine is not None]
        return silent_part_is_larger(members_of(last_start(all_events(self._report))), heard)

    def taken_away(self, survey: Survey) -> str:
        """Reason to start the ranks again although they have stopped on request; "" if none.

        A batch system that takes a host away ends the ranks there by SIGTERM, by which any rank can
        ask all to stop. Their summary is removed then, since the run goes on.
        """
        path = self._report / SUMMARY
        summary = json.loads(path.read_text())
        told = summary["status"] == "stopped" and _BY_A_RANK in (summary["reason"] or "")
        if not (told and summary["resumable"] and survey.lost and survey.left):
            return ""
        path.unlink()
        return f"{', '.join(survey.lost)}: taken away while ranks were told to end {_BY_A_RANK}"

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
        if self._memory is None or not self._wanted.several:
            return
        untidy = {"recovered", "restart", "stopped", "failed"}
        if reason or any(event["event"] in untidy for event in all_events(self._report)):
            self._hosts.run(self.all_hosts(), ["rm", "-rf", *map(str, self._memory)])


def _machines(outputs: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Own name and boot of each host, by the *outputs* of :func:`says_who` that are whole."""
    said = {name: identity_in(output) for name, output in outputs.items()}
    return {name: ids[:2] for name, ids in said.items() if ids is not None}


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
