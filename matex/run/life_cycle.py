"""Begin and end of a run, on all ranks together."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import ft
from ft import mpi
from matex.errors import InputError
from matex.records.events import give_room, write_json, write_text
from matex.records.fault_records import unfired
from matex.records.lost_ranks import LOST_STRICTLY, lost_to_own_errors
from matex.records.starts import starts_of
from matex.records.summary import FAULTS, SUMMARY, faults_csv, summarize
from matex.report.trace import TRACE, write_trace
from matex.run.context import RunContext
from matex.run.open_mpi_segments import forsake_segments

__all__ = ["RunLifeCycle"]


class RunLifeCycle:
    """Begins and ends a run, each once; between them, :mod:`matex.run.preemption` may stop it.

    Args:
        run: run whose services it starts and stops.
    """

    def __init__(self, run: RunContext) -> None:
        self._run = run
        self._events = run.records.events
        self._saver = run.saver
        self._started = time.time()
        self._at_end: list[Callable[[], None]] = []

    def at_end(self, call: Callable[[], None]) -> None:
        """Register *call*, to be called when the script has ended on every rank."""
        self._at_end.append(call)

    # The begin.

    def begin(self) -> None:
        """Start the watchdog, and look for a checkpoint to continue from; collective.

        Raises:
            InputError: the checkpoint directory cannot be used; on every rank.
        """
        run = self._run
        world = run.communicator.world
        self._events.write(
            "start", pid=world.me.pid, host=world.me.host, boot=world.me.boot,
            world_size=run.ranks.active if world.awaits_admission else run.ranks.size_of(world),
            spares=run.config.spares, ulfm=run.communicator.ulfm,
            ends_s=run.stop_request.ends_s,
        )  # fmt: skip
        if run.elastic.joining is not None:
            self._events.write("exchange", **run.steps.exchange_factory.described(world))
            run.watchdog.start()
            self._saver.join()
            return
        if world.size > 1 and not run.communicator.ulfm:
            run.terminal.say(
                "no ULFM in this MPI, or it was not switched on: the first death ends all ranks "
                "(matex run --max-restarts N starts them again; with Open MPI 5 the others go on)"
            )
        elif world.size > 1 and (weak := mpi.weakness(*mpi.load().get_vendor())):
            run.terminal.say(f"warning: {weak}")
        self._record_exchange()
        run.watchdog.start()
        saved = self._saver.start()
        run.records.ledger.job.begin(run.communicator, self._events, saved)
        run.checkpoints.continue_from(saved)
        if saved is not None:
            self._events.write("resumed", **saved.cursor)
            run.terminal.say(f"continuing from the checkpoint of step {saved.step}")

    def _record_exchange(self) -> None:
        """Choose the exchange of this rank, and record it; collective.

        Raises:
            InputError: the requested exchange is missing on some ranks; raised on every rank.
        """
        run, exchanges = self._run, self._run.steps.exchange_factory
        if run.config.strategy == "sync" and not run.config.deterministic:
            exchanges.try_out(run.communicator)
        self._events.write("exchange", **exchanges.described(run.communicator.world))
        native = exchanges.kind == "native"
        if run.config.exchange == "native" and not run.communicator.agree(native):
            reason = "another rank has none" if native else exchanges.why
            raise InputError(f"exchange must be native on every rank. Received: {reason}")
        if run.config.exchange == "auto" and not native:
            run.terminal.say(f"using the host exchange: {exchanges.why}")

    # The end.

    def end(self, weights_hash: str | None, *, reason: str | None = None) -> None:
        """Write the summary and leave together, after the script; collective, once.

        Args:
            weights_hash: 16 hexadecimal digits; None if nothing was trained.
            reason: reason for which the run failed on all ranks; None if it did not.
        """
        run = self._run
        if run.outcome.end():
            return
        if run.elastic.joining is not None and run.communicator.world.awaits_admission:
            run.elastic.joining.leave(
                "the script came to its end, without the fit that the others are in"
            )
        run.elastic.replacements.end()
        waiting = {member.rank for member in run.communicator.world.spares}
        run.elastic.call_spares_back(closing=True)
        run.calls.begin("the end of the script")
        if run.outcome.is_released:
            weights_hash, reason = None, reason or "was in reserve when the others left"
        self._saver.close()
        run.records.trace.flush()
        run.records.progress.end()
        gathered = run.communicator.allgather(_row_of(weights_hash))
        run.communicator.barrier()  # all ranks have written their events and checkpoints
        for call in self._at_end:
            call()
        is_complete = reason is None and run.outcome.stopped is None
        if is_complete and run.config.strict and lost_to_own_errors(self._events.all()):
            run.outcome.lose_strictly()
            reason = LOST_STRICTLY
        # The next leader writes it if this one dies over it.
        ft.one_answer(run.communicator, lambda: self._report(gathered, waiting, reason))
        if is_complete:
            self._saver.discard_memory()  # it is not needed any more
        run.communicator.leave()
        run.watchdog.stop()
        forsake_segments()

    def _report(self, gathered: ft.Gathered, waiting: set[int], reason: str | None) -> bytes:
        """Write the report, unless there is none or it is another start's; the leader does."""
        run = self._run
        if self._saver.is_stale():
            run.terminal.warn("others have gone on without these ranks: no summary is written")
        elif run.config.report is not None:
            self._write_report(run.config.report, gathered, waiting, reason)
        return b""

    def _write_report(
        self, report: Path, gathered: ft.Gathered, waiting: set[int], reason: str | None
    ) -> None:
        """Write the last events, the table of faults, the summary and the trace; the leader does.

        Args:
            gathered: rows of :func:`_row_of`.
            waiting: spares when the script ended.
            reason: reason for which the run failed; None if it did not.
        """
        run, stopped = self._run, self._run.outcome.stopped
        self._record_unfired()
        hashes = {
            str(rank): bytes(digest[1:]).hex()
            for rank, digest in zip(gathered.ranks, gathered.rows, strict=True)
            if digest[0]
        }
        if reason is None and len(set(hashes.values())) > 1:
            reason = f"ranks end with different weights: {hashes}"
            run.terminal.warn(reason)
        status = "finished" if reason is None else "failed"
        if stopped is not None and reason is None:
            status, reason = "stopped", stopped.reason
        resumable = status == "failed" and self._saver.has_file()
        self._events.write(status, reason=reason)
        living = set(run.communicator.world.ranks) - waiting
        summary = summarize(
            run.records.ledger.totals,
            self._events.all(),
            status=status,
            reason=reason,
            resumable=stopped.resumable if stopped and status == "stopped" else resumable,
            world_size_end=min(run.ranks.active, len(living)),
            weights_hash=dict(list(hashes.items())[: run.ranks.active]),
            wall_s=time.time() - self._started + run.stop_request.began_before_s,
        )
        self._write_summary(report, summary)
        try:
            write_trace(report, self._events.all())
        except OSError as error:
            run.terminal.warn(f"{report / TRACE} cannot be written: {error.strerror}")

    def _write_summary(self, report: Path, summary: dict[str, Any]) -> None:
        """Write the table of faults, and last the summary; a full disk raises nothing."""
        try:
            give_room(report)
            write_text(report / FAULTS, faults_csv(summary["faults"]))
        except OSError as error:
            self._run.terminal.warn(f"{report / FAULTS} cannot be written: {error.strerror}")
        try:
            write_json(report / SUMMARY, summary)
        except OSError as error:
            self._run.terminal.warn(f"{report / SUMMARY} cannot be written: {error.strerror}")

    def _record_unfired(self) -> None:
        """Record planned faults that never fired, so that they do not pass for survived."""
        run = self._run
        here = starts_of(self._events.all())[-1].events
        # A leader that died over the summary has told some.
        told = {event["fault"] for event in here if event["event"] == "fault-not-fired"}
        for fault, ranks in unfired(run.config.faults, self._events.all()):
            if fault.text in told:
                continue
            self._events.write("fault-not-fired", fault=fault.text, ranks=ranks)
            some = 0 < len(ranks) < len(fault.ranks)
            where = f" on rank {', '.join(map(str, ranks))}" if some else ""
            run.terminal.say(f"the injected fault {fault.text} never fired{where}")


def _row_of(weights_hash: str | None) -> np.ndarray:
    """Row of a flag for whether there is a hash, and its 8 bytes. Pure."""
    has_hash = weights_hash is not None
    return np.frombuffer(bytes([has_hash]) + bytes.fromhex(weights_hash or "00" * 8), np.uint8)
