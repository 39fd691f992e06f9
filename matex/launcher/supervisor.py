"""``matex run``: starts the ranks, supervises them, and restarts them after a total loss.

It handles the failures that survivors cannot: of the launcher, of a host, of all ranks, or the lack
of any sign of life. Without ULFM every death is one.
"""

from __future__ import annotations

import contextlib
import math
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path

from matex.config import ARBITER, environment_of_started, one_order_of_sets
from matex.launcher.arbiter import Arbiter
from matex.launcher.draining import Draining
from matex.launcher.exit_report import (
    NOT_MET,
    NOT_STARTED,
    Logs,
    all_events,
    exit_status,
    killed_silently,
    last_start,
    reason_of,
)
from matex.launcher.host_memory import HostMemoryDirectories, reserved
from matex.launcher.hosts import Hosts
from matex.launcher.job import Job
from matex.launcher.launch import Launch, check_survival, mpiexec_command
from matex.launcher.lines import say
from matex.launcher.mpiexec import Mpiexec, find_mpiexec
from matex.launcher.patience import Patience, Quiet, has_summary, signs_in
from matex.launcher.preparing import all_owned, prepare
from matex.launcher.rank_processes import processes_with
from matex.launcher.relaunch import Relaunch, Survey, take_fence
from matex.launcher.rendezvous import Rendezvous
from matex.launcher.restarts import Attempt, GiveUp, decide, ranks_in_words, read_hosts
from matex.launcher.scratch import scratch_directory
from matex.launcher.signals import Signals
from matex.launcher.standard_input import served_input
from matex.launcher.starting_ranks import RanksHere
from matex.records import summary as summaries
from matex.records.event_order import newest_start
from matex.records.events import EVENTS, EventLog
from matex.records.launcher_protocol.heartbeat_file import FILE, read_sign
from matex.records.launcher_protocol.starting_file import announce, end_start

__all__ = ["supervise"]

_LOOK_S = 0.5


def supervise(wanted: Launch) -> int:
    """Run *wanted* to its end; return the exit status of ``matex run``.

    0 exactly when the summary says finished, 75 when it stopped early and can be
    continued: mpiexec's own status proves nothing.

    Raises:
        InputError: no mpiexec, or the report directory cannot be written, or another run uses
            it or the checkpoint directory.
    """
    mpiexec = find_mpiexec()
    wanted = replace(wanted, ulfm=wanted.ulfm and mpiexec.survives)
    check_survival(wanted, mpiexec)
    with scratch_directory() as scratch:
        kept = wanted.config.report
        report = scratch / "report" if kept is None else kept
        with (
            all_owned(wanted.config) as locks,
            reserved(processes_with) as memory,
            served_input(scratch) as standard_input,
        ):
            prepare(report, wanted.config.checkpoint)
            environment = environment_of_started(scratch)
            config = replace(wanted.config, standard_input=standard_input)
            environment |= one_order_of_sets(config.seed)
            if wanted.grow:
                config = replace(config, grow_to=wanted.ranks)
            if sys.stdout.isatty():  # a rank's own says nothing of it: it leads to mpiexec
                columns = os.get_terminal_size(sys.stdout.fileno()).columns
                config = replace(config, shown_ranks=wanted.ranks, shown_columns=columns)
            else:
                config = replace(config, redirected=True)
            if memory is not None:
                environment |= memory.settings
            if memory is not None and (wanted.max_restarts or config.respawn):
                config = replace(config, memory=memory.snapshots)
                if not wanted.max_restarts:  # only for new processes: no checkpoint is wanted
                    config = replace(config, memory_every=math.inf)
            started = replace(wanted, config=config)
            supervisor = _Supervisor(started, report, environment, mpiexec, memory, locks)
            with supervisor.listening():
                reason = supervisor.run()
                supervisor.relaunch.tidy(reason)
        return exit_status(
            report, reason, supervisor.logs, ranks=wanted.ranks, kept=kept is not None
        )


class _Supervisor:
    def __init__(
        self,
        wanted: Launch,
        report: Path,
        environment: dict[str, str],
        mpiexec: Mpiexec,
        memory: HostMemoryDirectories | None,
        locks: Sequence[int],
    ) -> None:
        self._wanted = wanted
        self._report = report
        self._log = EventLog(report / EVENTS, -1, start=newest_start(all_events(report)))
        self.logs = Logs(report)
        self._mpiexec = mpiexec
        self._locks = locks
        self._environment = environment
        self._hosts = Hosts(mpiexec=mpiexec, environment=environment)
        self.relaunch = Relaunch(wanted, report, self._hosts, memory)
        self._draining = Draining(report, environment)
        self._signals = Signals(self._log, self._draining.ask)
        self._attempts: list[Attempt] = []
        self._missed = False  # whether a rank was, at the last start

    def listening(self) -> AbstractContextManager[None]:
        """Context in which signals to this program are answered: see :class:`Signals`."""
        return self._signals.handled()

    def run(self) -> str:
        """Start ranks until a summary is written; return the reason if there is none."""
        wanted = self._wanted
        # Open MPI reports this in fifteen lines of its own.
        if wanted.hosts and (unknown := self._hosts.unknown(read_hosts(wanted.hosts))):
            return f"{NOT_STARTED}: no program can be started on {', '.join(unknown)}"
        while True:
            reason, survey = self._attempt(wanted), Survey(self.relaunch)
            if has_summary(self._report) and not (reason := self._taken_away(survey)):
                whole = self._whole_again()
                if whole is None:
                    return ""
                wanted = whole
                continue
            if self._signals.leave:
                return self._signals.left(reason)
            if reason is None:
                lost = ", ".join(survey.lost)
                reason = (
                    f"{lost}: no answer any more"
                    if lost
                    else killed_silently(several=wanted.several)
                )
            elif reason == NOT_STARTED and survey.lost:
                reason = f"{reason}: no program can be started on {', '.join(survey.lost)}"
            self._attempts.append(self._lost(reason))
            decision = decide(self._attempts, limit=wanted.max_restarts)
            if isinstance(decision, GiveUp):
                return f"{reason}; {decision.reason}" if decision.reason else reason
            again = self.relaunch.on(survey.left)
            if again is None:
                return f"{reason}; no host answers any more"
            if self.relaunch.larger_part_is_silent(survey) and (why := self._shut_out()):
                return f"{reason}; {why}"
            if has_summary(self._report):
                return ""
            if not self._signals.leave:
                self._tell(reason, again.ranks, survey.left)
            if not self._rest(decision.delay_s):
                return self._signals.left(reason)
            wanted = again

    def _taken_away(self, survey: Survey) -> str:
        """See :meth:`Relaunch.taken_away`; "" if the ranks are not to be started again anyway."""
        is_over = self._signals.leave or len(self._attempts) >= self._wanted.max_restarts
        return "" if is_over else self.relaunch.taken_away(survey)

    def _shut_out(self) -> str:
        """Make sure that unreachable ranks cannot write any more.

        Returns:
            Reason for which that is not certain; "" if it is, or a summary was written meanwhile.
        """
        directory = self._wanted.config.checkpoint
        part = "the hosts that do not answer hold the larger part of the ranks, which may go on"
        if directory is None:
            return f"{part}, and without --checkpoint there is no fence to keep them out"
        quiet = Quiet(lambda: signs_in(self._report, directory))
        while not quiet.reached():
            if self._signals.leave or has_summary(self._report):
                return ""
            time.sleep(_LOOK_S)
        problem = take_fence(directory)
        return f"{part}, and they cannot be kept out: {problem}" if problem else ""

    def _attempt(self, wanted: Launch) -> str | None:
        """Start the ranks and wait for their end; return why they ended, None if unknown."""
        self._report.mkdir(parents=True, exist_ok=True)  # it may have been removed
        self.logs.begin()
        self._missed = False
        wanted = replace(wanted, config=replace(wanted.config, start_number=self._log.start))
        command = mpiexec_command(wanted, report=self._report, mpiexec=self._mpiexec)
        (self._report / FILE).unlink(missing_ok=True)
        if wanted.ulfm and not wanted.several:  # else they connect to the arbiter
            announce(self._report)
        with self._arbiter(wanted) as arbiter:
            asking = {ARBITER: arbiter.setting} if arbiter else {}
            environment = {**self._environment, **asking}
            job = Job(self._mpiexec, command, environment, files=self._locks)
            with self._signals.passed_to(job):
                spawns = wanted.config.respawn > 0 and not wanted.cold
                here = RanksHere(self._report, wanted.processes, job.ranks)
                rendezvous = Rendezvous(arbiter.starting if arbiter else here, wanted.processes)
                silent = self._silence(job, arbiter, rendezvous, spawns=spawns)
                status = job.status
                job.end(ask=not silent or has_summary(self._report))
        end_start(self._report)
        if silent:
            return silent
        return reason_of(self._report, self.logs, status=status)

    @contextlib.contextmanager
    def _arbiter(self, wanted: Launch) -> Iterator[Arbiter | None]:
        """Context of the arbiter for the ranks of one start; None if they are on one host."""
        if not (wanted.several and wanted.ulfm):
            yield None
            return
        over = partial(has_summary, self._report)
        arbiter = Arbiter(self._hosts, self.relaunch.names, over, started=wanted.processes)
        try:
            yield arbiter
        finally:
            arbiter.close()

    def _silence(
        self, job: Job, arbiter: Arbiter | None, rendezvous: Rendezvous, *, spawns: bool
    ) -> str:
        """Wait for the job's end; return why the wait was given up, "" if the job ended."""
        patience = Patience(self._report, self._wanted.config.hang_timeout)
        while not job.wait(rendezvous.look_s):
            self._draining.look()
            if spawns and patience.is_over(job.is_left):
                return ""
            split = arbiter is not None and arbiter.was_asked
            if missed := rendezvous.missed():
                self._missed = True
                return missed
            if rendezvous.is_over:
                self._signals.ranks_have_met()
            elif self._signals.leave:
                return NOT_MET
            reason = patience.ends(several=arbiter is not None, split=split)
            if reason:
                return reason
        return ""

    def _lost(self, reason: str) -> Attempt:
        step = read_sign(self._report).step
        events = last_start(all_events(self._report))
        started = any(event["event"] == "start" for event in events)
        return Attempt(step=step, started=started, reason=reason, missed=self._missed)

    def _whole_again(self) -> Launch | None:
        """Next start, if the ranks left because some are missing; else None."""
        short = [e for e in last_start(all_events(self._report)) if e["event"] == "short"]
        if not short or self._signals.leave:
            return None
        again = self.relaunch.on(Survey(self.relaunch).left)
        if again is not None:
            size, ranks = short[-1]["world_size"], again.ranks
            hosts = None if again.hosts is None else read_hosts(again.hosts)
            self._log.write(
                "grow", step=short[-1]["step"], world_size=size, ranks=ranks, hosts=hosts
            )
            left = "1 rank is left" if size == 1 else f"{size} ranks are left"
            say(f"{left}: starting {ranks_in_words(ranks)} again")
            (self._report / summaries.SUMMARY).unlink()
        return again

    def _tell(self, reason: str, ranks: int, hosts: dict[str, int] | None) -> None:
        step = self._attempts[-1].step
        self._log.write(
            "restart", number=len(self._attempts), step=step, reason=reason, ranks=ranks,
            hosts=hosts,
        )  # fmt: skip
        where = f" on {', '.join(hosts)}" if hosts else ""
        count = f"({len(self._attempts)} of at most {self._wanted.max_restarts} restarts)"
        say(f"{reason}: starting {ranks_in_words(ranks)} again{where} {count}")

    def _rest(self, delay_s: float) -> bool:
        """Wait before the next start; return False after a stop request."""
        end = time.monotonic() + delay_s
        while not self._signals.leave and time.monotonic() < end:
            time.sleep(min(0.1, delay_s))
        return not self._signals.leave
