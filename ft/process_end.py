"""The end of this process in error, which nothing prevents.

What a process has to say and to write before its end may fail, or wait for ever, for example for a
file system that hangs. Its peers wait for its death, so it comes all the same.
"""

from __future__ import annotations

import _thread
import contextlib
import functools
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from typing import NoReturn

from ft.launcher import started_by

__all__ = [
    "end_unnoticed",
    "exit_told",
    "fail_stop",
    "forget_callbacks",
    "on_fail_stop",
    "program_error",
]

# Time for the last words. They take milliseconds, and on a busy machine a second.
_LAST_WORDS_S = 5.0

_exit = os._exit  # before anything replaces it
_callbacks: list[Callable[[str], None]] = []
_program_error: BaseException | None = None


def on_fail_stop(callback: Callable[[str], None]) -> None:
    """Call a function just before this process ends itself in error. Local.

    Args:
        callback: function of the reason, one line of text. The process ends whatever the function
            raises, and after 5 s also while it still runs.

    Example:
        >>> ft.on_fail_stop(lambda reason: print("ended:", reason))
    """
    _callbacks.append(callback)


def forget_callbacks() -> None:
    """Call no function before the end any more; local, in a forked child."""
    _callbacks.clear()


def program_error() -> BaseException | None:
    """Exception of the program that ends this process, for a callback of :func:`on_fail_stop`.

    Returns:
        The exception; a ``SystemExit`` stands for an exit with a nonzero status. None if
        :func:`fail_stop` was called for another reason.

    Example:
        >>> ft.program_error() is None  # nothing ends this process
        True
    """
    return _program_error


def fail_stop(
    reason: str,
    *,
    error: BaseException | None = None,
    say: Callable[[str], None] = lambda reason: None,
) -> NoReturn:
    """End this process now, by SIGKILL, so that its peers notice and go on. Local.

    Output is flushed first, for 5 s at most. Nothing else runs: no ``atexit``, no MPI_Finalize. A
    process that no launcher started has no peers, and exits with status 1.

    Args:
        reason: one line of text, for the callbacks of :func:`on_fail_stop`.
        error: exception of the program that is the reason, see :func:`program_error`; None by
            default.
        say: function that is called with *reason* first, and may print it; none by default.

    Raises:
        SystemExit: never reached, because SIGKILL cannot be caught; for type checkers.

    Example:
        >>> import subprocess, sys
        >>> program = "import ft; ft.fail_stop('the disk is full'); print('not reached')"
        >>> ended = subprocess.run([sys.executable, "-c", program], capture_output=True)
        >>> ended.returncode != 0, ended.stdout
        (True, b'')
    """
    _end(_kill, [lambda: say(reason), *_words(reason, error), _flush])


def exit_told(status: int, reason: str, *, error: BaseException) -> NoReturn:
    """Exit at once after the calls of :func:`on_fail_stop`, without a flush. Local.

    Args:
        status: exit status.
        reason, error: arguments of :func:`fail_stop`.

    Raises:
        SystemExit: never reached, as in :func:`fail_stop`.
    """
    _end(lambda: _exit(status), _words(reason, error))


def end_unnoticed() -> NoReturn:
    """End this process, a newcomer that is not admitted yet, without notice by any peer. Local.

    Output is flushed first. It exits with status 1: mpiexec would print lines about a signal.

    Raises:
        SystemExit: never reached, as in :func:`fail_stop`.

    Example:
        >>> import subprocess, sys
        >>> program = "import ft; ft.end_unnoticed(); print('not reached')"
        >>> subprocess.run([sys.executable, "-c", program]).returncode
        1
    """
    _end(lambda: _exit(1), [_flush])


def _words(reason: str, error: BaseException | None) -> list[Callable[[], None]]:
    """Calls of the functions of :func:`on_fail_stop`."""
    global _program_error  # noqa: PLW0603 - one process, one end
    _program_error = error
    return [functools.partial(callback, reason) for callback in _callbacks]


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        if stream is not None:
            # A signal handler may have interrupted another flush: RuntimeError.
            with contextlib.suppress(OSError, ValueError, AttributeError, RuntimeError):
                stream.flush()


def _kill() -> None:
    if started_by(os.environ) is None:
        _exit(1)
    os.kill(os.getpid(), signal.SIGKILL)


def _end(end: Callable[[], None], words: Sequence[Callable[[], None]]) -> NoReturn:
    """Call each of *words*, whatever the others raise, and then *end*, which ends the process.

    If they take too long, a thread calls *end* without waiting for them.
    """
    with contextlib.ExitStack() as last:
        last.callback(end)
        for word in reversed(words):
            last.callback(word)
        # Not threading.Thread, whose locks the interrupted code may hold.
        _thread.start_new_thread(_end_later, (end,))
    raise SystemExit(1)  # not reached: SIGKILL cannot be caught


def _end_later(end: Callable[[], None]) -> None:
    time.sleep(_LAST_WORDS_S)
    end()
