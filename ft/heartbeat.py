"""Calls that keep Open MPI's failure detector alive while a rank computes.

With ``mpi_ft_detector`` every rank sends heartbeats and listens for those of another rank, so
that a silent host is found. Both happen inside MPI calls only, and a rank that computes for
longer than the time-out would be declared dead. The detector's own thread
(``mpi_ft_detector_thread``) is no remedy: in Open MPI 5.0.11 it uses a whole core from the
start to the end of MPI, may crash by a jump to an invalid address, and keeps MPI_Finalize from
returning.

So a POSIX timer calls the progress engine instead, on a thread that the C library makes for
each call. Python's lock is not needed for it: a rank may hold that for as long as it likes.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Mapping

from ft.errors import Unrecoverable

__all__ = ["Heartbeat", "interval", "is_on"]

_ON, _THREAD, _PERIOD = (f"OMPI_MCA_mpi_ft_detector{end}" for end in ("", "_thread", "_period"))
_DEFAULT_PERIOD_S = 3.0
_MOST_S = 1.0
_SIGEV_THREAD = 2


def is_on(environment: Mapping[str, str]) -> bool:
    """Whether Open MPI's failure detector is on, which gives up silent ranks. Pure."""
    return environment.get(_ON, "0") != "0"


def interval(environment: Mapping[str, str]) -> float | None:
    """Seconds between two calls of the progress engine; None if the detector needs none. Pure.

    A heartbeat is sent by the first call after it is due, so several calls are made in a period.
    """
    if not is_on(environment) or environment.get(_THREAD, "0") != "0":
        return None
    return min(_MOST_S, float(environment.get(_PERIOD, _DEFAULT_PERIOD_S)) / 4)


class _Time(ctypes.Structure):
    """A ``struct timespec``."""

    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))

    @classmethod
    def of(cls, seconds: float) -> _Time:
        whole, part = divmod(round(1e9 * seconds), 10**9)
        return cls(whole, part)


class _Timing(ctypes.Structure):
    """A ``struct itimerspec``."""

    _fields_ = (("interval", _Time), ("first", _Time))


class _SignalEvent(ctypes.Structure):
    """A ``struct sigevent`` that calls a function on a thread of its own."""

    _fields_ = (
        ("value", ctypes.c_void_p),
        ("signal", ctypes.c_int),
        ("notify", ctypes.c_int),
        ("function", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("rest", ctypes.c_byte * 32),
    )


class Heartbeat:
    """Calls the progress engine of MPI every *every_s* seconds, until :meth:`stop`. Local.

    Needs MPI_THREAD_MULTIPLE.

    Args:
        library: a file linked to the MPI library, as mpi4py's extension is.

    Raises:
        Unrecoverable: this MPI library has no ``opal_progress``.
        OSError: the system provides no timer.
    """

    def __init__(self, library: str, *, every_s: float) -> None:
        try:
            progress = ctypes.CDLL(library).opal_progress
        except AttributeError:
            raise Unrecoverable(
                "Open MPI's failure detector needs its progress engine, and this MPI shows no "
                f"opal_progress: unset {_ON}, or set {_THREAD}=1"
            ) from None
        self._system = _system()
        self._timer = ctypes.c_void_p()
        address = ctypes.cast(progress, ctypes.c_void_p)
        event = _SignalEvent(notify=_SIGEV_THREAD, function=address)
        self._call("timer_create", time.CLOCK_MONOTONIC, event, ctypes.byref(self._timer))
        every = _Time.of(every_s)
        self._call("timer_settime", self._timer, 0, _Timing(every, every), None)

    def stop(self) -> None:
        """Stop the calls; before MPI_Finalize."""
        self._call("timer_delete", self._timer)

    def _call(self, name: str, *arguments: object) -> None:
        passed = [ctypes.byref(a) if isinstance(a, ctypes.Structure) else a for a in arguments]
        if self._system[name](*passed) != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"{name}: {os.strerror(number)}")


def _system() -> ctypes.CDLL:
    """C library that has the timers: libc, or librt in glibc before 2.34."""
    system = ctypes.CDLL(None, use_errno=True)
    return system if hasattr(system, "timer_create") else ctypes.CDLL("librt.so.1", use_errno=True)
