"""Start of a rank, before the script runs."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import sys
import threading
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import ft
from ft import mpi
from matex import session
from matex.checkpointing.host_memory import ready_segments
from matex.checkpointing.stop_requests import StopRequest
from matex.config import Config, arbiter_setting, starting_rank, visible_gpus
from matex.config.instruction_set import LIMIT, instruction_set
from matex.config.launcher_address import LauncherAddress
from matex.errors import InputError
from matex.launcher.locks import leave_inherited
from matex.process import child_output, devices, library_import, own_interrupts, standard_input
from matex.process.graph_prints import hear_prints
from matex.process.shared_report import claim_together
from matex.records import console
from matex.records.events import EVENTS, EventLog
from matex.records.lost_ranks import record_end
from matex.records.standard_streams import open_closed_streams
from matex.records.starting_connection import StartingConnection
from matex.records.starting_file import end_start
from matex.records.tracebacks import is_of_script_alone, shorten
from matex.run.joining import Joining

if TYPE_CHECKING:
    from matex.process.keras_adapter import KerasAdapter

__all__ = ["error_of_graphs", "import_libraries", "seed_libraries", "start_rank"]

_INSTALL = (
    "TensorFlow with Keras 3 was not found: install it with pip install 'matex[cpu]' "
    "or 'matex[gpu]'. Received: {error}"
)


def start_rank(config: Config, *, interrupts: bool = False) -> KerasAdapter:
    """Meet the other ranks, and return the adapter, whose ``start()`` comes next; collective.

    From here on an error on this rank ends this rank alone.

    Args:
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
    communicator, joining, cold_spares = _met(config)
    world = communicator.world
    if config.spares >= communicator.initial_size:
        raise InputError(
            "spares must be fewer than all ranks that were started. Received: "
            f"spares={config.spares} of {communicator.initial_size} ranks"
        )
    if config.spares and not communicator.ulfm:
        raise InputError(
            "spares want an MPI with ULFM switched on (Open MPI 5 under 'mpiexec --with-ft ulfm', "
            f"as 'matex run' does). Received: spares={config.spares} without it"
        )
    replaced = config.grow_to > 0 or config.memory is not None or config.respawn > 0
    ft.check_faults(
        config.faults,
        ranks=communicator.initial_size,
        replaced=replaced,
        hosts=None if joining is not None else _hosts(world, cold_spares),
    )
    if config.respawn and not communicator.ulfm:
        raise InputError(
            "respawn wants an MPI with ULFM switched on (Open MPI 5 under 'mpiexec --with-ft "
            f"ulfm', as 'matex run' does). Received: respawn={config.respawn} without it"
        )
    if config.strict and config.report is None:
        raise InputError(
            "strict wants a report directory, in which ranks say what ends them. "
            "Received: strict without report; give --report DIR"
        )
    if config.report is not None:
        if joining is None:
            claim_together(config.report, communicator)
        config.report.mkdir(parents=True, exist_ok=True)
    console.redirect(
        config.report,
        world.rank,
        lambda: communicator.world.is_leader,
        redirected=config.redirected,
    )
    child_output.install()
    standard_input.install(config.standard_input)
    path = None if config.report is None else config.report / EVENTS
    events = EventLog(path, world.rank)
    ft.on_fail_stop(lambda reason: record_end(events, reason, step=_step()))
    faulthandler.enable(2, all_threads=False)
    host = devices.neighbours(communicator, visible_gpus())
    working = communicator.initial_size - config.spares
    threads = config.threads or int(config.deterministic)  # kernels must add up alike everywhere
    if joining is None:
        cores = devices.choose_cores(host, world.rank, threads=threads, working=working)
    else:
        cores = devices.Cores(joining.welcome.threads)
        stop_request.began_before_s = joining.welcome.elapsed_s
    hosts = world.host_count if joining is None else joining.welcome.hosts
    overlaps = hosts > 1 and not config.deterministic
    devices.take_cores(cores, asked_for=threads > 0, operations=1 + overlaps)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    try:
        with library_import.quick():
            import tensorflow
    except ModuleNotFoundError as error:
        raise InputError(_INSTALL.format(error=error)) from None
    hear_prints(tensorflow.sysconfig.get_lib())
    gpus = tensorflow.config.list_physical_devices("GPU")
    gpu = devices.choose_gpu(len(gpus), host, world.rank)
    devices.take_gpu(gpu, tensorflow.config)
    events.write("devices", gpu=gpu.number, threads=cores.threads, cores=cores.kept_on)
    seed_libraries(config.seed)
    if config.deterministic:
        # Maps of tf.data that draw, or run side by side, would do so in any order.
        tensorflow.config.experimental.enable_op_determinism()

    from matex.process.keras_adapter import KerasAdapter
    from matex.run.context import RunContext
    from matex.run.processor import Threads

    processor = Threads(own=cores.threads, host=len(devices.cores_of(host, world.rank)))
    run = RunContext(config, communicator, events, stop_request, processor, joining, cold_spares)
    if config.deterministic and (sets := devices.differing_sets(communicator, instruction_set())):
        run.say(
            f"warning: the processors of the ranks have the instruction sets {', '.join(sets)}, so "
            f"bits follow from who computes what; set {LIMIT} alike for all, to AVX2 for example"
        )
    adapter = session.current = KerasAdapter(run)
    ft.shield(lambda: _end_program(adapter), before_print=shorten, is_harmless=is_of_script_alone)
    _leave_together(adapter)
    if gpu.note:
        run.say(gpu.note)
    return adapter


class _Met(NamedTuple):
    """Communicator of all ranks, or a newcomer's own with its way into the run."""

    communicator: ft.Communicator
    joining: Joining | None = None
    cold_spares: ft.ColdSpares | None = None


def _met(config: Config) -> _Met:
    """Meet the other ranks, or wait until a rank calls this process; collective.

    A cold spare that is not called ends here, when the run is over.

    Raises:
        ft.Unrecoverable: no MPI.
    """
    starting = _starting_connection()
    if config.respawn:
        ft.allow_newcomers()
    mpi.load()
    if config.report is not None:
        end_start(config.report)
    if starting is not None:
        starting.end()
    cold = ft.ColdSpares.meet(config.cold) if config.cold else None
    try:
        invitation = _invitation(cold) if config.respawn else None
    except ft.Unrecoverable:
        if not mpi.is_initialized():
            raise
        ft.end_unnoticed()  # the sponsor has died
    if invitation is None:
        return _Met(ft.Communicator.start(cold=cold), cold_spares=cold)
    joining = Joining(invitation)
    alone = mpi.load().COMM_SELF
    communicator = ft.Communicator(
        alone, invitation.world, initial_size=joining.welcome.ranks, cold=cold
    )
    return _Met(communicator, joining, cold)


def _hosts(world: ft.World, cold: ft.ColdSpares | None) -> set[str]:
    """Hosts on which ranks are, or may come to be. Pure."""
    waiting = cold.hosts if cold is not None else frozenset()
    return {member.host for member in world.everyone} | waiting


def _starting_connection() -> StartingConnection | None:
    """This rank's connection to the launcher, if that watches ranks on several hosts; local."""
    setting, rank = arbiter_setting(), starting_rank()
    if setting is None or rank is None:
        return None
    return StartingConnection(LauncherAddress.read(setting), rank)


def _invitation(cold: ft.ColdSpares | None) -> ft.Invitation | None:
    """Invitation of this process, if it is a newcomer; local, and waits for a call.

    Raises:
        ft.Unrecoverable: the sponsor has died.
    """
    if cold is None or not cold.is_one:
        return ft.Invitation.received()
    ahead = threading.Thread(target=import_libraries, daemon=True)
    bridge = cold.wait(expected=ahead.start)
    if bridge is None:
        mpi.finalize()
        os._exit(0)  # at once, also where the libraries are half imported
    if ahead.ident is not None:
        ahead.join()
    return ft.Invitation(bridge)


def import_libraries() -> None:
    """Import TensorFlow in advance, and other modules that a rank needs. Local.

    If there is none, the start of the rank reports it.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    with contextlib.suppress(ModuleNotFoundError), library_import.quick():
        from matex.process import keras_adapter  # noqa: F401


_SEED_OF_TENSORFLOW = 87654321  # DEFAULT_GRAPH_SEED of tensorflow/python/framework/random_seed.py


def seed_libraries(seed: int) -> None:
    """Seed Keras, TensorFlow, NumPy and Python equally on every process of a run. Local.

    Args:
        seed: seed of the run.
    """
    import keras
    import tensorflow

    keras.utils.set_random_seed(seed)
    if seed == 0:
        # Seed that operations with their own seed use if a script set no global seed.
        tensorflow.random.set_seed(_SEED_OF_TENSORFLOW)


def error_of_graphs() -> type[Exception]:
    """The class of errors out of operations of a graph."""
    import tensorflow

    error: type[Exception] = tensorflow.errors.OpError
    return error


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

    os._exit = leave


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
    return None if adapter is None or not adapter.run.step else adapter.run.step
