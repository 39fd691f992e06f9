"""Ways of ending a process so that no peer hangs.

mpi4py finalises MPI when the interpreter ends. After an uncaught exception or
``sys.exit(1)`` on one rank that call waits for peers, which wait for this rank: a deadlock.
So a process that ends in error kills itself, which its peers notice at once, and a process
that ends normally finalises MPI together with its peers.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, NoReturn

from ft import mpi
from ft.error_text import in_one_line
from ft.process_end import exit_told, fail_stop, forget_callbacks

__all__ = [
    "forget_exit",
    "shield",
    "shielded",
]

_real_exit = os._exit
_real_sys_exit = sys.exit
_on_normal_exit: Callable[[], None] | None = None
_exit_requested: list[int] = []
_before_print: Callable[[BaseException], None] | None = None
_is_harmless: Callable[[BaseException], bool] | None = None
_is_child = False  # forked by the rank


def shield(
    farewell: Callable[[], None],
    *,
    before_print: Callable[[BaseException], None] | None = None,
    is_harmless: Callable[[BaseException], bool] | None = None,
) -> None:
    """Make an error on this rank end this rank alone, and at once, from now on. Local.

    Uncaught exceptions, also in threads, and ``sys.exit`` or ``os._exit`` with a nonzero
    status print their message and then call :func:`fail_stop`; an exception of the main thread
    first waits for threads and calls ``atexit`` functions. A normal end of the program calls
    *farewell*, which must finalise MPI together with the peers. ``os._exit(0)`` before a normal end
    counts as a death, too, and calls the callbacks of :func:`on_fail_stop`.

    ``raise SystemExit(1)`` in a library does not pass through ``sys.exit``; run such code
    under :func:`shielded`.

    Args:
        farewell: function called at the normal end, such as :meth:`ft.Communicator.leave`; a later
            call of ``shield`` replaces it.
        before_print: function called with an exception of the main thread before it is printed; it
            may shorten the traceback. None by default.
        is_harmless: function of an exception that no one caught in a thread, after it was printed:
            whether the rank goes on, as a Python program does. None, the default: it never does.

    Example:
        >>> import subprocess, sys
        >>> program = "import ft; ft.shield(lambda: print('leaving')); print('working')"
        >>> subprocess.run([sys.executable, "-c", program], capture_output=True).stdout
        b'working\\nleaving\\n'
    """
    global _on_normal_exit, _before_print, _is_harmless  # noqa: PLW0603 - one process, one exit
    if is_harmless is not None:
        _is_harmless = is_harmless
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
    """Run a block whose every abnormal end ends this rank, whatever was raised. Local.

    Raises:
        BaseException: only in a child process that was forked inside the block: a child is no rank,
            and ends like any process.

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
        fail_stop(in_one_line(error), error=error)


def _prepare_to_print(error: BaseException) -> None:
    if _before_print is not None:
        _before_print(error)


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
    fail_stop(in_one_line(error), error=error.with_traceback(trace))


def _uncaught_in_thread(args: Any) -> None:
    threading.__excepthook__(args)
    if args.exc_type is not SystemExit:
        error = args.exc_value or args.exc_type()
        if _is_harmless is not None and _is_harmless(error):
            return
        fail_stop(in_one_line(error), error=error)


def _exit(code: object = None) -> NoReturn:
    # A caught SystemExit must stay harmless, so only remember; _at_exit decides.
    status, _ = _status_of(code)
    _exit_requested.append(status)
    raise SystemExit(code)


def _exit_now(status: int) -> NoReturn:
    # PRRTE 3.0 (Open MPI 5.0.11) reports nothing about a rank that ends with a nonzero status,
    # so its peers would wait for ever.
    if not mpi.is_finalized():
        reason, error = f"os._exit with status {status}", SystemExit(status)
        if status != 0:
            fail_stop(reason, error=error)
        exit_told(status, reason, error=error)
    _real_exit(status)


def _call_exit_handlers() -> None:
    """Wait for threads and call the ``atexit`` functions, as Python does at any end but a kill.

    None of them may communicate: :func:`_at_exit` is removed first.
    """
    atexit.unregister(_at_exit)
    threading._shutdown()  # type: ignore[attr-defined]
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
    """Undo the shield in a forked child, which is no rank and ends like any process."""
    global _is_child  # noqa: PLW0603 - so is the process
    _is_child = True
    sys.excepthook, threading.excepthook = sys.__excepthook__, threading.__excepthook__
    sys.exit, os._exit = _real_sys_exit, _real_exit
    atexit.unregister(_at_exit)
    forget_callbacks()


def forget_exit() -> None:
    """Forget an earlier ``sys.exit``, which was caught: a collective has completed since."""
    _exit_requested.clear()
