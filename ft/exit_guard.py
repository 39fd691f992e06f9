"""Ending a process so that no peer hangs.

mpi4py finalises MPI when the interpreter ends. After an uncaught exception or
``sys.exit(1)`` on one rank that call waits for peers which are waiting for this
rank: everything hangs. So a process that ends in error kills itself, which its
peers see at once, and one that ends well leaves together with them.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, NoReturn

from ft import mpi
from ft.launcher import started_by

__all__ = [
    "end_unnoticed",
    "fail_stop",
    "forget_exit",
    "on_fail_stop",
    "program_error",
    "shield",
    "shielded",
]

_real_exit = os._exit
_real_sys_exit = sys.exit
_fail_stop_callbacks: list[Callable[[str], None]] = []
_on_normal_exit: Callable[[], None] | None = None
_exit_requested: list[int] = []
_program_error: BaseException | None = None
_before_print: Callable[[BaseException], None] | None = None
_is_child = False  # forked by the rank


def on_fail_stop(callback: Callable[[str], None]) -> None:
    """Call a function just before this process ends itself in error. Local.

    Args:
        callback: function of the reason, one line of text; an OSError or ValueError of it is
            passed over.

    Example:
        >>> ft.on_fail_stop(lambda reason: print("ended:", reason))
    """
    _fail_stop_callbacks.append(callback)


def program_error() -> BaseException | None:
    """The program's exception that ends this process, for a callback of :func:`on_fail_stop`.

    Returns:
        The exception; a ``SystemExit`` stands for an exit with a nonzero status. None where
        whoever called :func:`fail_stop` decided to end it.

    Example:
        >>> ft.program_error() is None  # nothing ends this process
        True
    """
    return _program_error


def fail_stop(reason: str, *, error: BaseException | None = None) -> NoReturn:
    """End this process now, by SIGKILL, so that its peers notice and go on. Local.

    Output is flushed first. Nothing else runs: no ``atexit``, no MPI_Finalize. A process
    that no launcher started has no peers, and ends with status 1.

    Args:
        reason: text of one line, for the callbacks of :func:`on_fail_stop`.
        error: exception out of the program that is the reason, see :func:`program_error`;
            none by default.

    Raises:
        SystemExit: never seen, for SIGKILL cannot be caught; it tells type checkers of the end.

    Example:
        >>> import subprocess, sys
        >>> program = "import ft; ft.fail_stop('the disk is full'); print('not reached')"
        >>> ended = subprocess.run([sys.executable, "-c", program], capture_output=True)
        >>> ended.returncode != 0, ended.stdout
        (True, b'')
    """
    _tell(reason, error)
    _flush()
    if started_by(os.environ) is None:
        _real_exit(1)
    os.kill(os.getpid(), signal.SIGKILL)
    raise SystemExit(1)  # not reached: SIGKILL cannot be caught


def end_unnoticed() -> NoReturn:
    """End this process, which waits to be admitted, now: it is no rank, so no peer notices. Local.

    Output is flushed first. It ends by status 1: of a signal mpiexec would print some lines.

    Raises:
        SystemExit: never seen, as by :func:`fail_stop`.

    Example:
        >>> import subprocess, sys
        >>> program = "import ft; ft.end_unnoticed(); print('not reached')"
        >>> subprocess.run([sys.executable, "-c", program]).returncode
        1
    """
    _flush()
    _real_exit(1)
    raise SystemExit(1)  # not reached


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        if stream is not None:
            with contextlib.suppress(OSError, ValueError, AttributeError):
                stream.flush()


def _tell(reason: str, error: BaseException | None) -> None:
    """Call the functions of :func:`on_fail_stop`."""
    global _program_error  # noqa: PLW0603 - one process, one end
    _program_error = error
    for callback in _fail_stop_callbacks:
        with contextlib.suppress(OSError, ValueError):
            callback(reason)


def shield(
    farewell: Callable[[], None], *, before_print: Callable[[BaseException], None] | None = None
) -> None:
    """Let an error on this rank end this rank only, and at once, from now on. Local.

    Uncaught exceptions, also in threads, and ``sys.exit`` or ``os._exit`` with a
    nonzero status print what they have to say and then :func:`fail_stop`; an exception of the
    main thread calls the program's ``atexit`` functions in between. A normal end of the
    program calls *farewell*, which must leave together with the peers. ``os._exit(0)`` before
    that is a death, too, of which the functions of :func:`on_fail_stop` are told.

    Libraries that exit through ``raise SystemExit(1)`` are not seen by
    ``sys.exit``; run such code under :func:`shielded`.

    Args:
        farewell: function called at the normal end; :meth:`ft.Communicator.leave` fits. That of
            a later call takes its place.
        before_print: function that gets an exception of the main thread before it is printed, and
            may shorten its traceback; none by default.

    Example:
        >>> import subprocess, sys
        >>> program = "import ft; ft.shield(lambda: print('leaving')); print('working')"
        >>> subprocess.run([sys.executable, "-c", program], capture_output=True).stdout
        b'working\\nleaving\\n'
    """
    global _on_normal_exit, _before_print  # noqa: PLW0603 - one process, one exit
    if before_print is not None:
        _before_print = before_print
    first = _on_normal_exit is None
    _on_normal_exit = farewell
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
    """Run a block whose every abnormal end is this rank's death, whatever raised it. Local.

    Raises:
        BaseException: only in a child that was forked inside: it is no rank, and ends as any
            process does.

    Example:
        >>> with ft.shielded():
        ...     weights = np.ones(3) / 2  # an error here would end this rank by fail_stop
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
            _call_exit_handlers()
            fail_stop(message or f"the program ended with status {status}", error=stop)
    except BaseException as error:
        if _is_child:
            raise
        _prepare_to_print(error)
        traceback.print_exception(error)
        _call_exit_handlers()
        fail_stop(_one_line(type(error), error), error=error)


def _prepare_to_print(error: BaseException) -> None:
    if _before_print is not None:
        _before_print(error)


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
    _prepare_to_print(error)
    sys.__excepthook__(kind, error, error.__traceback__)
    _call_exit_handlers()
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
    if not mpi.is_finalized():
        reason, error = f"os._exit with status {status}", SystemExit(status)
        if status != 0:
            fail_stop(reason, error=error)
        _tell(reason, error)
    _real_exit(status)


def _call_exit_handlers() -> None:
    """Call the handlers of ``atexit``, as Python does at any end but a kill; once.

    None of them may meet the peers: :func:`_at_exit` is not among them.
    """
    atexit.unregister(_at_exit)
    atexit._run_exitfuncs()


def _at_exit() -> None:
    if mpi.is_finalized():
        return
    if _exit_requested and _exit_requested[-1] != 0:
        status = _exit_requested[-1]
        fail_stop(f"the program ended with status {status}", error=SystemExit(status))
    if _on_normal_exit is not None:
        _on_normal_exit()


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
