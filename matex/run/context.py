"""What one run is made of on this rank, from its start to its common end."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np

import checkpoints
import ft
from ft import mpi
from matex.checkpointing.host_memory import forsake_segments
from matex.checkpointing.model_state import state_hash
from matex.checkpointing.saver import FILES, Saver, Take
from matex.checkpointing.stop_requests import StopRequest
from matex.config import Config, arbiter_setting
from matex.errors import InputError
from matex.exchange import Choice, HostExchange, Layout
from matex.records.events import EventLog, give_room, write_json, write_text
from matex.records.fault_events import (
    lost_spares,
    record_fault,
    record_joining,
    record_recovery,
    record_replay,
    recovery_line,
)
from matex.records.fault_records import unfired
from matex.records.heartbeat_file import HeartbeatFile
from matex.records.losses import LOST_STRICTLY, lost_to_own_errors
from matex.records.progress import ProgressThrottle
from matex.records.step_report import StepReport
from matex.records.summary import FAULTS, SUMMARY, Stopped, Totals, faults_csv, summarize
from matex.run.call_order import CallOrder
from matex.run.hooks import RunHooks
from matex.run.job_counts import JobCounts
from matex.run.launcher_client import LauncherClient
from matex.run.timeouts import MEASURED_STEPS, STOPPED_S, WORK_S, patience, step_limit
from matex.steps.local_contribution import StepRequests
from matex.steps.nonfinite import Nonfinite

__all__ = ["RunContext"]


class RunContext:
    """The communicator and everything that watches, records and counts around it.

    ``step`` is the number of the next training step of the whole script, counted
    from 0 over all its fits and over resumptions.
    """

    def __init__(
        self,
        config: Config,
        communicator: ft.Communicator,
        events: EventLog,
        notice: StopRequest | None = None,
    ) -> None:
        self.config = config
        self.communicator = communicator
        self.calls = CallOrder(communicator)
        self.events = events
        events.complain = self.say
        self.working = communicator.initial_size - config.spares
        self.dismissed = False  # a spare that the others left
        self.balances = config.balance  # whether batches are shared by speed, equal on all ranks
        self.totals = Totals(
            world_size_start=self.working, spares=config.spares, strategy=config.strategy
        )
        self.job_counts = JobCounts(self.totals)
        me = communicator.world.me
        self.faults = ft.Injector(
            config.faults,
            rank=me.rank,
            host=me.host,
            before=lambda fault: record_fault(events, fault, step=self.step),
        )
        self.watchdog = ft.Watchdog(
            timeout_s=config.hang_timeout or WORK_S,
            stopped_after_s=STOPPED_S,
            neighbours=lambda: communicator.world.neighbours,
            patience=lambda: patience(communicator.world.place, communicator.world.size),
            say=self.warn,
            beat=self._beat,
        )
        self._pulse = HeartbeatFile(config.report)
        alone = "" if ft.has_mpi() else "no MPI was found, so this is one rank"
        self.choice = Choice(
            config.exchange,
            config.cache_directory,
            compression=config.compression,
            impossible=alone,
        )
        self.saved: checkpoints.Snapshot | None = None
        self.notice = notice or StopRequest()
        self.saver = Saver(config, communicator, events, self.notice, self.warn)
        self.stopped: Stopped | None = None  # see matex.run.preemption
        self.can_grow = config.grow_to > 0
        self.threads = 1, 1  # of this rank, and the cores that it shares with others
        self.script_leaves = False  # between its own steps: see matex.fitting.custom_loop
        self._started = time.time()
        self._finished = False
        self.failed_strictly = False  # known after the end
        self.all_have_ended: Callable[[], None] = lambda: None  # the script, on every rank
        self._said: set[str] = set()
        self._awaiting_step = True
        self._step_limit_s: float | None = None
        self._spares_lost: set[int] = set()
        self._generation = 0  # of the last recovery that changed who works, 0 before the first
        self.progress = ProgressThrottle()
        self.nonfinite = Nonfinite(config.nonfinite, communicator, tell=self._tell_nonfinite)
        setting = arbiter_setting()
        launcher = LauncherClient(setting) if setting else None
        communicator.attach(
            RunHooks(self.watchdog, self.faults, launcher, record=self._record_recovery)
        )
        events.listener = self.faults.heard

    @property
    def step(self) -> int:
        return self.faults.step

    @property
    def leads(self) -> bool:
        """Whether this rank prints and writes for all."""
        return self.communicator.world.is_leader

    def start(self) -> None:
        """Watch over progress, and look for a checkpoint to continue from; collective.

        Raises:
            InputError: on every rank, where the checkpoint directory cannot be used.
        """
        world = self.communicator.world
        self.events.write(
            "start", pid=world.me.pid, host=world.me.host, world_size=self.size_of(world),
            spares=self.config.spares, ulfm=self.communicator.ulfm,
        )  # fmt: skip
        if world.size > 1 and not self.communicator.ulfm:
            self.say(
                "no ULFM in this MPI, or it was not switched on: the first death ends all ranks "
                "(matex run --max-restarts N starts them again; with Open MPI 5 the others go on)"
            )
        elif world.size > 1 and (weak := mpi.weakness(*mpi.load().get_vendor())):
            self.say(f"warning: {weak}")
        self._tell_exchange()
        self.watchdog.start()
        self.saved = self.saver.start()
        self.job_counts.begin(self.communicator, self.events, self.saved)
        if self.saved is not None:
            step = self.faults.step = self.saved.step
            self.events.write("resumed", **self.saved.cursor)
            self.say(f"continuing from the checkpoint of step {step}")

    def _tell_exchange(self) -> None:
        """Collective.

        Raises:
            InputError: on every rank, where the one that was asked for is missing on some.
        """
        choice = self.choice
        self.events.write("exchange", kind=choice.kind, why=choice.why)
        native = choice.kind == "native"
        if self.config.exchange == "native" and not self.communicator.agree(native):
            reason = "another rank has none" if native else choice.why
            raise InputError(f"exchange must be native on every rank. Received: {reason}")
        if self.config.exchange == "auto" and not native:
            self.say(f"using the host exchange: {choice.why}")

    def make_exchange(self, layout: Layout, check_finite: bool) -> HostExchange:
        """The exchange of a step with *layout*; local."""
        return self.choice.make(
            self.communicator,
            layout,
            faults=self.faults,
            watchdog=self.watchdog,
            check_finite=check_finite,
        )

    def wishes(self) -> StepRequests:
        """What this rank asks for with the next step; local."""
        save = self.saver.due() if self.leads else 0
        if save & FILES and self.is_short:
            self.notice.missing = True
        return StepRequests(leave=self.notice.code != 0, save=save)

    @property
    def is_short(self) -> bool:
        """Whether ranks are missing that could be started again. Local."""
        return self.can_grow and self.communicator.world.size < self.config.grow_to

    def save_for_all(self, take: Take) -> bool:
        """Save into a file and wait for it; collective. Whether it is there."""
        return self.saver.save_for_all(take, point=lambda: self.faults.at("checkpoint"))

    def finish(self, weights_hash: str | None, *, reason: str | None = None) -> None:
        """The script has ended: write the summary and leave together; collective, once.

        Args:
            weights_hash: 16 hexadecimal digits, or None where nothing was trained.
            reason: why the run failed on all ranks alike; None when it did not.
        """
        if self._finished:
            return
        self._finished = True
        waiting = {member.rank for member in self.communicator.world.reserve}
        self.communicator.call_back(closing=True)
        self.calls.begin("the end of the script")
        if self.dismissed:
            weights_hash, reason = None, reason or "was in reserve when the others left"
        has_hash = weights_hash is not None
        row = np.frombuffer(bytes([has_hash]) + bytes.fromhex(weights_hash or "00" * 8), np.uint8)
        self.saver.close()
        gathered = self.communicator.allgather(row)
        self.communicator.barrier()  # everybody's events and checkpoints are written
        self.all_have_ended()
        if reason is None and self.stopped is None:
            self.saver.discard_memory()  # nobody will want it any more
            if self.config.strict and lost_to_own_errors(self.events.all()):
                self.failed_strictly, reason = True, LOST_STRICTLY
        if self.leads and self.saver.is_stale():
            self.warn("others have gone on without these ranks: no summary is written")
        elif self.leads and self.config.report is not None:
            self._tell_unfired()
            hashes = {
                str(rank): bytes(digest[1:]).hex()
                for rank, digest in zip(gathered.ranks, gathered.rows, strict=True)
                if digest[0]
            }
            if reason is None and len(set(hashes.values())) > 1:
                reason = f"ranks end with different weights: {hashes}"
                self.warn(reason)
            status = "finished" if reason is None else "failed"
            if self.stopped is not None and reason is None:
                status, reason = "stopped", self.stopped.reason
            self.events.write(status, reason=reason)
            summary = summarize(
                self.totals,
                self.events.all(),
                status=status,
                reason=reason,
                resumable=self.stopped is not None and self.stopped.resumable,
                world_size_end=min(self.working, len(set(self.communicator.world.ranks) - waiting)),
                weights_hash=dict(list(hashes.items())[: self.working]),
                wall_s=time.time() - self._started,
            )
            self._write_summary(self.config.report, summary)
        self.communicator.leave()
        self.watchdog.stop()
        forsake_segments()

    def _write_summary(self, report: Path, summary: dict[str, Any]) -> None:
        """The table of faults, and last the summary; a full disk ends nothing."""
        try:
            give_room(report)
            write_text(report / FAULTS, faults_csv(summary["faults"]))
        except OSError as error:
            self.warn(f"{report / FAULTS} cannot be written: {error.strerror}")
        try:
            write_json(report / SUMMARY, summary)
        except OSError as error:
            self.warn(f"{report / SUMMARY} cannot be written: {error.strerror}")

    def _tell_unfired(self) -> None:
        """A fault that was planned and never set off must not pass for one survived."""
        for fault, ranks in unfired(self.config.faults, self.events.all()):
            self.events.write("fault-not-fired", fault=fault.text, ranks=ranks)
            some = 0 < len(ranks) < len(fault.ranks)
            where = f" on rank {', '.join(map(str, ranks))}" if some else ""
            self.say(f"the injected fault {fault.text} never fired{where}")

    def step_done(self, report: StepReport, *, model: Any = None) -> None:
        """Count a finished step, and record what is new of it; local.

        Args:
            model: whose state is hashed after a recovery.
        """
        totals = self.totals
        totals.count(report)
        if self._awaiting_step:
            self._awaiting_step = False
            self.events.write("first-step", step=self.step, generation=self._generation)
            if model is not None and self._generation:
                digest = state_hash(model)
                self.events.write("state", step=self.step, generation=self._generation, hash=digest)
        if report.replay is not None:
            record_replay(self.events, report.replay, step=self.step, generation=self._generation)
        self.progress.step(report)
        if self.progress.is_due():
            progress = self._progress()
            if self.leads:
                self.events.write("progress", **progress)
                self._tell_lost_spares(self.communicator.lost_in_reserve())
        self.faults.step += 1
        self.watchdog.progress()
        self.watchdog.together()
        self._beat()
        if totals.own_steps == MEASURED_STEPS and self.config.hang_timeout is None:
            self._step_limit_s = step_limit(totals.step_s)
            self.events.write(
                "time-outs", step_s=self._step_limit_s, work_s=WORK_S, stopped_s=STOPPED_S
            )

    def _beat(self) -> None:
        """A sign of life for who watches over all ranks; the leader gives it."""
        if self.leads:
            with contextlib.suppress(OSError):  # training goes on without
                self._pulse.beat(self.step)

    def stepping(self) -> AbstractContextManager[None]:
        """Around the making of a step: how long it may take without progress."""
        return self.watchdog.working(timeout_s=self._step_limit_s)

    def _progress(self) -> dict[str, Any]:
        """The progress of training; the step that is about to be counted is the newest."""
        return {
            "step": self.step,
            "samples": self.totals.samples_used,
            "world_size": self.size_of(self.communicator.world),
            **self.progress.take(),
        }

    def size_of(self, world: ft.World) -> int:
        """How many ranks work; the others are spares, also where these are members for now."""
        return min(world.size, self.working)

    def counts(self) -> dict[str, Any]:
        """What a rank that goes on in the place of another must count from; equal on all ranks."""
        return {"step": self.step, **self.totals.counts()}

    def go_on_from(self, counts: dict[str, Any]) -> None:
        """What :meth:`counts` of another rank said is where this one stands, too."""
        self._generation = self.communicator.world.generation
        self.faults.step = counts["step"]
        self.totals.go_on_from(counts)

    def idle(self) -> None:
        """Now and then on a spare that waits: strike it where that is planned."""
        self.faults.at("compute")

    def tell_reserve(self) -> None:
        """The others are in reserve from here on."""
        waiting = [member.rank for member in self.communicator.world.reserve]
        if waiting and self.leads:
            self.events.write("reserve", step=self.step, ranks=waiting)

    def say(self, line: str) -> None:
        """One line for the user from the run as a whole; the leader prints it."""
        if self.leads:
            print(f"matex: {line}", flush=True)

    def say_once(self, line: str) -> None:
        """Print *line* for the user once, however often it is given; the leader prints it."""
        if line not in self._said:
            self._said.add(line)
            self.say(line)

    def warn(self, line: str) -> None:
        """One line for the user from this rank."""
        rank = self.communicator.world.rank
        print(f"matex: rank {rank}: {line}", file=sys.stderr, flush=True)

    def _tell_nonfinite(self, ranks: tuple[int, ...]) -> None:
        policy = self.config.nonfinite
        if self.leads:
            self.events.write("nonfinite", step=self.step, ranks=list(ranks), policy=policy)
        names = ", ".join(map(str, ranks))
        what = "made again" if policy == "recompute" else "made without its samples"
        self.say(f"rank {names} computed what is not finite: step {self.step} is {what}")

    def _record_recovery(self, recovery: ft.Recovery) -> None:
        before, after = recovery.before, recovery.after
        living = {member.rank for member in (*after.members, *after.reserve)}
        self._tell_lost_spares(m.rank for m in before.reserve if m.rank not in living)
        if not recovery.lost and not recovery.replaced:  # a peer was already leaving
            return
        self._generation = after.generation
        sizes = self.size_of(before), self.size_of(after)
        if recovery.lost:
            self._awaiting_step = True
            record_recovery(self.events, recovery, step=self.step, sizes=sizes)
        else:
            record_joining(self.events, recovery, step=self.step, sizes=sizes)
        self.say(
            recovery_line(recovery, step=self.step, size=sizes[1], of=self.totals.world_size_start)
        )

    def _tell_lost_spares(self, ranks: Iterable[int]) -> None:
        """A spare died while it waited, which disturbs nobody."""
        unknown = sorted(set(ranks) - self._spares_lost)
        self._spares_lost.update(unknown)
        if not unknown or not self.leads:
            return
        told_before = lost_spares(self.events.all())  # by a leader that is gone
        for rank in unknown:
            if rank not in told_before:
                self.events.write("spare-lost", step=self.step, lost=[rank])
                self.say(f"lost rank {rank}, a spare that waited")
