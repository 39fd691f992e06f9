"""Watchdog that ends processes without progress, so that other ranks can go on.

MPI notices a dead process, not a silent one. Each rank therefore watches itself from a thread: if
its own work makes no progress for too long it ends itself; a wait in a collective for much longer
than that means that the MPI library hangs. While it waits it also checks the other ranks of its
host: a stopped process (SIGSTOP, state T) would keep the job from ever ending, so it is ended.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import FrameType

from ft.errors import UsageError
from ft.process_end import fail_stop
from ft.processes import started_at
from ft.world import Member

__all__ = ["Watchdog", "is_stopped"]

# All ranks enter a collective within one step, so a wait of three times the longest allowed work
# means that no rank is working any more.
_PATIENCE = 3.0

# A check that is later than this was delayed by a system that stood still, such as a virtual
# machine that is migrated: such time counts for no rank.
_LATE_S = 0.5

# To compile work a rank has this many times its limit in addition: together that is no longer than
# other ranks wait for it.
_COMPILING = 2.0


def is_stopped(pid: int) -> bool:
    """Whether the process *pid* of this host exists and is stopped. Local; Linux only."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] in ("T", "t")


class Watchdog:
    """A thread that ends this process when it makes no progress. Local.

    Args:
        timeout_s: longest time in :meth:`working` without :meth:`progress`, seconds, above 0.
        neighbours: function that returns the current other ranks of this host; none by default.
        stopped_after_s: time for which a neighbour may be stopped while this rank waits for it,
            seconds; 10 by default.
        patience: function that returns how long this rank waits for other ranks, as a multiple of
            *timeout_s*; 3 by default. It should differ between ranks: if all of them wait, the
            first rank to give up lets the others repair.
        compilers: path endings of Python files that compile work, such as TensorFlow's
            ``framework/func_graph.py``, which traces a graph. While the main thread is inside one
            of them, its time counts separately, against a limit twice as long; none by default.
        say: function called with one line of text before a process is ended; prints by default.
        beat: function called several times a second from the thread while this process lives.
        may_be_given_up: function that returns whether other ranks may go on without this one while
            it lives, see :func:`ft.may_be_given_up`; always by default.

    Raises:
        UsageError: *timeout_s* is not above 0.

    Example:
        >>> dog = ft.Watchdog(timeout_s=60.0)
        >>> dog.start()
        >>> with dog.working():
        ...     for batch in range(3):
        ...         dog.progress()  # each within 60 s of the one before
        >>> dog.stop()

    ``waiting_since`` may be set to a function that returns since when (``time.monotonic()``)
    a collective outside Python has been waiting, 0 if none is.
    """

    def __init__(
        self,
        *,
        timeout_s: float,
        neighbours: Callable[[], Iterable[Member]] = tuple,
        stopped_after_s: float = 10.0,
        patience: Callable[[], float] = lambda: _PATIENCE,
        compilers: tuple[str, ...] = (),
        say: Callable[[str], None] = lambda line: print(line, file=sys.stderr, flush=True),
        beat: Callable[[], None] = lambda: None,
        may_be_given_up: Callable[[], bool] = lambda: True,
    ) -> None:
        if not timeout_s > 0:
            raise UsageError(f"timeout_s must be above 0. Received: timeout_s={timeout_s}")
        self._timeout_s = self._limit_s = timeout_s
        self._patience = patience
        self._compilers = compilers
        self._compiled_s = self._frozen_s = 0.0
        self._beat = time.monotonic()
        self._slept_s = 0.0
        self._main = threading.main_thread().ident
        self._stopped_after_s = stopped_after_s
        self._neighbours = neighbours
        self._me = Member.here(0)
        self._say = say
        self._alive = beat
        self._may_be_given_up = may_be_given_up
        self._since = time.monotonic()
        self._waiting = False
        self._working = False
        self.waiting_since: Callable[[], float] = lambda: 0.0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="ft-watchdog", daemon=True)

    def start(self) -> None:
        """Start the thread; it ends with the process or with :meth:`stop`."""
        self.progress()
        self._beat = time.monotonic()
        self._thread.start()

    def stop(self) -> None:
        """Stop watching."""
        self._end.set()

    def progress(self) -> None:
        """Restart the count, because this rank has made progress."""
        self._since = time.monotonic()
        self._compiled_s = self._frozen_s = 0.0

    def together(self) -> None:
        """Note that an operation of all ranks is complete: none has gone on without this rank."""
        self._slept_s = 0.0

    @contextlib.contextmanager
    def working(self, on: bool = True, *, timeout_s: float | None = None) -> Iterator[None]:
        """Context of work for which other ranks wait: only inside it is a lack of progress a hang.

        Args:
            on: False for a part inside it that may take any time.
            timeout_s: limit inside this context, seconds; the watchdog's limit by default.
        """
        before = self._working, self._limit_s
        self._working, self._limit_s = on, timeout_s or self._limit_s
        self.progress()
        try:
            yield
        finally:
            self._working, self._limit_s = before
            self.progress()

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Context of a collective, in which this rank waits for other ranks."""
        self._waiting = True
        self.progress()
        try:
            yield
            self.together()
        finally:
            self._waiting = False
            self.progress()

    @contextlib.contextmanager
    def busy(self) -> Iterator[None]:
        """Context, inside :meth:`waiting`, of this rank's own work for which other ranks wait.

        Without it a rank that is stuck there would count as waiting, and all ranks would give up
        together.
        """
        before = self._waiting, self._working
        self._waiting, self._working = False, True
        self.progress()
        try:
            yield
        finally:
            self._waiting, self._working = before
            self.progress()

    def end_if_woken(self) -> None:
        """End this rank, before a repair, if it was stopped so long that other ranks gave it up.

        A process that was held by SIGSTOP or by its host, and then woken, must not repair a
        communicator that other ranks have repaired without it. Where only ended processes count as
        dead no rank can have done so: all may have been stopped together before one of them died.
        """
        slept_s = max(self._slept_s, time.monotonic() - self._beat)
        was_stopped = self._thread.is_alive() and slept_s > self._stopped_after_s
        if was_stopped and self._may_be_given_up():
            reason = (
                f"was stopped for {slept_s:.0f} s, and the others have gone on: ending this rank"
            )
            fail_stop(reason, say=self._say)

    def _watch(self) -> None:
        stopped_since: dict[int, float] = {}
        interval = min(0.25, self._timeout_s / 4, self._stopped_after_s / 4)
        while not self._end.wait(interval):
            self._alive()
            now = time.monotonic()
            if now - self._beat > self._stopped_after_s:
                self._slept_s = now - self._beat
                stopped_since.clear()
            since_last_s, self._beat = now - self._beat, now
            if since_last_s > interval + _LATE_S:
                self._frozen_s += since_last_s
                since_last_s = 0.0
            outside = self.waiting_since()
            waiting = self._waiting or outside > 0
            idle_s = now - (outside or self._since) - self._frozen_s
            if waiting:
                self._end_stopped(stopped_since, now)
            limit_s = self._limit_s * (self._patience() if waiting else 1)
            if not waiting and self._is_compiling():
                self._compiled_s += min(since_last_s, idle_s)
                idle_s, limit_s = self._compiled_s, _COMPILING * self._limit_s
            elif not waiting:
                idle_s -= self._compiled_s
            if idle_s > limit_s and (waiting or self._working):
                doing = "waited in a collective" if waiting else "made no progress"
                limit = f"limit {limit_s:.0f} s{self._place()}"
                reason = f"{doing} for {idle_s:.0f} s ({limit}): ending this rank"
                fail_stop(reason, say=self._say)

    def _frame(self) -> FrameType | None:
        """Innermost frame of the main thread."""
        return sys._current_frames().get(self._main or 0)

    def _is_compiling(self) -> bool:
        frame = self._frame() if self._compilers else None
        while frame is not None:
            if frame.f_code.co_filename.endswith(self._compilers):
                return True
            frame = frame.f_back
        return False

    def _place(self) -> str:
        """Current place of the main thread in the code, for the message about a hang."""
        frame = self._frame()
        if frame is None:
            return ""
        code = frame.f_code
        return f", in {Path(code.co_filename).name}:{frame.f_lineno} {code.co_name}"

    def _end_stopped(self, stopped_since: dict[int, float], now: float) -> None:
        for member in self._neighbours():
            # Members may be dead for long, and their ids those of other processes by now.
            is_it = member.shares_ids_with(self._me) and started_at(member.pid) == member.started
            if not (is_it and is_stopped(member.pid)):
                stopped_since.pop(member.pid, None)
                continue
            since = stopped_since.setdefault(member.pid, now)
            if now - since >= self._stopped_after_s:
                self._say(
                    f"rank {member.rank} (process {member.pid}) has been stopped for "
                    f"{now - since:.0f} s: ending it"
                )
                with contextlib.suppress(OSError):
                    os.kill(member.pid, signal.SIGKILL)
