"""Start of a rank, before the script runs."""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
from typing import TYPE_CHECKING, NoReturn

import ft
from matex import session
from matex.config import Config
from matex.config.instruction_set import LIMIT, instruction_set
from matex.launcher.locks import leave_inherited
from matex.preemption.stop_request import StopRequest
from matex.process import child_output, devices, own_interrupts, standard_input
from matex.process.libraries import import_libraries, place_libraries
from matex.process.mpi_start import MpiStart, start_mpi
from matex.process.requirements import check_requirements
from matex.process.shared_report import claim_together
from matex.records import console
from matex.records.events import EVENTS, EventLog
from matex.records.lost_ranks import record_end
from matex.records.standard_streams import open_closed_streams
from matex.records.tracebacks import is_of_script_alone, shorten
from matex.replacing import replace
from matex.run.open_mpi_segments import ready_segments

if TYPE_CHECKING:
    from matex.process.keras_adapter import KerasAdapter

__all__ = ["start_rank"]


def start_rank(config: Config, *, interrupts: bool = False) -> KerasAdapter:
    """Meet the other ranks, and return the adapter, whose ``start()`` comes next; collective.

    From here on an error on this rank ends this rank alone.

    Args:
        config: configuration of the run.
        interrupts: Ctrl-C tells the run to save and to leave, as SIGTERM and SIGUSR1 do; in a
            notebook it should not.

    Raises:
        ft.Unrecoverable: no MPI.
        ft.UsageError: the faults do not fit the number of ranks.
        InputError: TensorFlow is missing or already uses a GPU; there are too many spares; or the
            report directory is not of a run, or cannot be written.
    """
    open_closed_streams()
    leave_inherited()
    stop_request = StopRequest(config.wall_time)
    stop_request.listen(interrupts=interrupts)
    own_interrupts.install(stop_request)
    ready_segments()
    started = start_mpi(config, prepare=import_libraries)
    if started.joining is not None:
        stop_request.began_before_s = started.joining.welcome.elapsed_s
    check_requirements(config, started)
    events = _open_report(config, started)
    place = place_libraries(config, started)
    events.write(
        "devices", gpu=place.gpu.number, threads=place.cores.threads, cores=place.cores.kept_on
    )

    from matex.process.keras_adapter import KerasAdapter
    from matex.run.context import RunContext
    from matex.run.processor import Threads

    communicator, joining, cold_spares = started
    processor = Threads(own=place.cores.threads, host=place.host_cores)
    run = RunContext(config, communicator, events, stop_request, processor, joining, cold_spares)
    if config.deterministic and (sets := devices.differing_sets(communicator, instruction_set())):
        run.terminal.say(
            f"warning: the processors of the ranks have the instruction sets {', '.join(sets)}, so "
            f"bits follow from who computes what; set {LIMIT} alike for all, to AVX2 for example"
        )
    adapter = session.current = KerasAdapter(run)
    ft.shield(lambda: _end_program(adapter), before_print=shorten, is_harmless=is_of_script_alone)
    _leave_together(adapter)
    if place.gpu.note:
        run.terminal.say(place.gpu.note)
    return adapter


def _open_report(config: Config, started: MpiStart) -> EventLog:
    """Take the report directory, and write to it what this rank prints and what ends it.

    Collective, but for a newcomer.
    """
    communicator = started.communicator
    if config.report is not None:
        if started.joining is None:
            claim_together(config.report, communicator)
        config.report.mkdir(parents=True, exist_ok=True)
    rank = communicator.world.rank
    console.redirect(
        config.report,
        rank,
        lambda: communicator.world.is_leader,
        redirected=config.redirected,
    )
    child_output.install()
    standard_input.install(config.standard_input)
    path = None if config.report is None else config.report / EVENTS
    events = EventLog(path, rank, start=config.start_number)
    ft.on_fail_stop(lambda reason: record_end(events, reason, step=_step()))
    faulthandler.enable(2, all_threads=False)
    return events


def _leave_together(adapter: KerasAdapter) -> None:
    """Make ``os._exit(0)`` of the script a normal end, at which the ranks leave together.

    That is so where the script itself is running. Inside a call, or on another thread, this rank
    cannot meet the others, and its exit is its death. A child that is forked ends by Python's own.
    """
    exit_now = os._exit

    def leave(status: int) -> NoReturn:
        main = threading.current_thread() is threading.main_thread()
        if status == 0 and main and not adapter.is_in_call:
            adapter.finish()
            status = 1 if adapter.run.outcome.lost_strictly else 0
        exit_now(status)

    replace(os, "_exit", leave)


def _end_program(adapter: KerasAdapter) -> None:
    """The end of a program that called ``matex.init``."""
    adapter.finish()
    if adapter.run.outcome.lost_strictly:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)  # too late for sys.exit, and the ranks have left each other


def _step() -> int | None:
    """Number of this rank's training step; None before the first."""
    adapter = session.current
    return None if adapter is None else adapter.run.step or None
