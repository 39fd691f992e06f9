"""What one run is made of on this rank, from its start to its common end."""

from __future__ import annotations

import sys
import time

import numpy as np

import checkpoints
import ft
from matex.config import Config
from matex.errors import InputError
from matex.events import EventLog, write_json
from matex.exchange import Choice, HostExchange, Layout
from matex.strategies import Traffic
from matex.summary import SUMMARY, Totals, summarize

__all__ = ["Run"]

# In place of a checkpoint's step.
_NONE, _UNUSABLE = -1, -2


class Run:
    """The communicator and everything that watches, records and counts around it.

    ``step`` is the number of the next training step of the whole script, counted
    from 0 over all its fits and over resumptions.
    """

    def __init__(self, config: Config, communicator: ft.Communicator, events: EventLog) -> None:
        self.config = config
        self.communicator = communicator
        self.events = events
        self.totals = Totals(world_size_start=communicator.initial_size, strategy=config.strategy)
        me = communicator.world.me
        self.faults = ft.Injector(
            config.faults, rank=me.rank, host=me.host, before=self._record_fault
        )
        self.watchdog = ft.Watchdog(
            timeout_s=config.hang_timeout,
            neighbours=lambda: communicator.world.neighbours,
            say=self.warn,
        )
        alone = "" if ft.has_mpi() else "no MPI was found, so this is one rank"
        self.choice = Choice(
            config.exchange,
            config.cache_directory,
            compression=config.compression,
            impossible=alone,
        )
        self.store: checkpoints.Store | None = None
        self.saved: checkpoints.Snapshot | None = None
        self._started = time.time()
        self._finished = False
        self._said: set[str] = set()
        self._awaiting_step = False
        communicator.waiting = self.watchdog.waiting
        communicator.listeners.append(self._record_recovery)
        communicator.recovery_point = lambda: self.faults.at("recovery")

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
            "start", pid=world.me.pid, host=world.me.host, world_size=world.size,
            ulfm=self.communicator.ulfm,
        )  # fmt: skip
        if world.size > 1 and not self.communicator.ulfm:
            self.say(
                "this MPI has no ULFM: training works, but the first death ends it "
                "(start with 'matex run', or mpiexec --with-ft ulfm of Open MPI 5)"
            )
        self._tell_exchange()
        self.watchdog.start()
        if self.config.checkpoint is not None:
            self.store = checkpoints.Store(self.config.checkpoint, keep_last=self.config.keep)
            self.saved = self._newest_checkpoint(self.store)

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

    def _newest_checkpoint(self, store: checkpoints.Store) -> checkpoints.Snapshot | None:
        """The leader chooses, all read; collective."""
        newest = np.array([_NONE], np.int64)
        reason = "the leader's log says why"
        if self.leads:
            try:
                store.prepare()
                found = store.newest_valid()
                newest[0] = _NONE if found is None else found[1].step
            except checkpoints.CheckpointError as error:
                newest[0], reason = _UNUSABLE, str(error)
        self.communicator.broadcast(newest)
        if newest[0] == _UNUSABLE:
            raise InputError(f"the checkpoint directory cannot be used: {reason}")
        if newest[0] == _NONE:
            return None
        saved = store.load(store.directory / f"step-{int(newest[0]):09d}.h5")
        self.faults.step = saved.step
        self.events.write("resumed", **saved.cursor)
        self.say(f"continuing from the checkpoint of step {saved.step} in {self.config.checkpoint}")
        return saved

    def finish(self, weights_hash: str | None, *, reason: str | None = None) -> None:
        """The script has ended: write the summary and leave together; collective, once.

        Args:
            weights_hash: 16 hexadecimal digits, or None where nothing was trained.
            reason: why the run failed on all ranks alike; None when it did not.
        """
        if self._finished:
            return
        self._finished = True
        row = np.frombuffer(bytes.fromhex(weights_hash or "00" * 8), np.uint8)
        gathered = self.communicator.allgather(row)
        self.communicator.barrier()  # everybody's events are written
        if self.leads and self.config.report is not None:
            self._tell_unfired()
            status = "finished" if reason is None else "failed"
            self.events.write(status, reason=reason)
            summary = summarize(
                self.totals,
                self.events.all(),
                status=status,
                reason=reason,
                world_size_end=self.communicator.world.size,
                weights_hash={
                    str(rank): bytes(digest).hex()
                    for rank, digest in zip(gathered.ranks, gathered.rows, strict=True)
                    if weights_hash is not None
                },
                wall_s=time.time() - self._started,
            )
            write_json(self.config.report / SUMMARY, summary)
        self.watchdog.stop()
        self.communicator.leave()

    def _tell_unfired(self) -> None:
        """A fault that was planned and never set off must not pass for one survived."""
        fired = {event["fault"] for event in self.events.all() if event["event"] == "fault"}
        for fault in self.config.faults:
            if fault.text not in fired:
                self.events.write("fault-not-fired", fault=fault.text)
                self.say(f"the injected fault {fault.text} never fired")

    def step_done(self, *, samples: int, step_s: float, exchange_s: float, sent: Traffic) -> None:
        """Count a finished step; local."""
        totals = self.totals
        totals.steps += 1
        totals.samples_used += samples
        totals.step_s.append(step_s)
        totals.exchange_s.append(exchange_s)
        totals.messages += sent.messages
        totals.bytes += sent.bytes
        if self._awaiting_step:
            self._awaiting_step = False
            generation = self.communicator.world.generation
            self.events.write("first-step", step=self.step, generation=generation)
        self.faults.step += 1
        self.watchdog.progress()

    def say(self, line: str) -> None:
        """One line for the user from the run as a whole; the leader prints it."""
        if self.leads:
            print(f"matex: {line}", flush=True)

    def say_once(self, line: str) -> None:
        """The same, however often it is called with this *line*."""
        if line not in self._said:
            self._said.add(line)
            self.say(line)

    def warn(self, line: str) -> None:
        """One line for the user from this rank."""
        rank = self.communicator.world.rank
        print(f"matex: rank {rank}: {line}", file=sys.stderr, flush=True)

    def _record_fault(self, fault: ft.Fault) -> None:
        self.events.write(
            "fault",
            fault=fault.text,
            kind=fault.kind,
            step=fault.step,
            at=fault.at,
            lethal=fault.lethal,
        )

    def _record_recovery(self, recovery: ft.Recovery) -> None:
        if not recovery.lost:  # a peer was already leaving
            return
        self._awaiting_step = True
        lost = [member.rank for member in recovery.lost]
        self.events.write(
            "recovered",
            step=self.step,
            operation=recovery.operation,
            finished_by_peer=recovery.finished,
            generation=recovery.after.generation,
            lost=lost,
            detect_time_s=recovery.detect_time_s,
            repaired_time_s=recovery.repaired_time_s,
            world_size_before=recovery.before.size,
            world_size_after=recovery.after.size,
        )
        names = ", ".join(str(rank) for rank in lost)
        self.say(
            f"lost rank {names} in step {self.step}; going on with {recovery.after.size} of "
            f"{self.totals.world_size_start} ranks after {recovery.repair_s * 1e3:.0f} ms"
        )
