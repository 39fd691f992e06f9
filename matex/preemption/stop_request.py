"""Stop requests: their sources on a rank, and how all ranks learn of them.

A signal or the clock only sets a flag. It travels with the gradients of the next step, so
all ranks know of it after the same step, save, and leave (:mod:`matex.preemption.exits`).
"""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any

import ft
from matex.errors import StopRequested

__all__ = [
    "CLOCK",
    "MISSING",
    "SIGNALS",
    "StopRequest",
    "described",
    "margin_s",
    "stopped_in_custom_loop",
]

SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)

#: Code in place of a signal's number, for a stop request by the wall time.
CLOCK = 1000

#: Code for missing ranks: there was no request, and all ranks are to be started again.
MISSING = 1001


def described(code: int) -> str:
    """Description of *code*: a signal's number, `CLOCK` or `MISSING`."""
    said = {CLOCK: "the wall time is over", MISSING: "ranks are missing"}
    return said.get(code) or signal.Signals(code).name


def stopped_in_custom_loop() -> StopRequested:
    """The exception that ends a custom loop that is not saved."""
    return StopRequested(
        "only the script can continue a custom loop: make a matex.Checkpoint and call its step() "
        "in the loop"
    )


def margin_s(wall_time_s: float, save_s: float) -> float:
    """Seconds before the end of the wall time at which to leave. Pure.

    They are a tenth of it, 30 s at most, and twice the longest time of a checkpoint so far.
    """
    return min(30.0, wall_time_s / 10) + 2 * save_s


class StopRequest:
    """Whether this rank has a stop request. Local; one per process.

    Args:
        wall_time_s: longest time from now that the run may last; 0, the default, is for no limit.

    A single rank that runs a custom loop makes no steps that are known here, and so never reads
    :attr:`code`: while :meth:`raise_in_handler` is on, a signal raises `StopRequested` at once.
    """

    def __init__(self, wall_time_s: float = 0.0) -> None:
        self._wall_time_s = wall_time_s
        self._started = time.monotonic()
        self.began_before_s = 0.0
        """Seconds for which the others had been running when this process was started."""
        self._signal = 0
        self._raises = False
        self._interrupts_itself = False
        self._save_s = 0.0
        self._asks_for_missing = False

    def raise_in_handler(self, on: bool) -> None:
        """Set whether a signal raises in its handler, or is left to steps that ask for it."""
        self._raises = on

    def expect_own_interrupt(self) -> None:
        """Take the next SIGINT for the script's own: ``KeyboardInterrupt``, as in plain Python."""
        self._interrupts_itself = signal.getsignal(signal.SIGINT) == self._received

    @property
    def elapsed_s(self) -> float:
        """Seconds since the ranks were started."""
        return time.monotonic() - self._started + self.began_before_s

    def note_save(self, seconds: float) -> None:
        """Note how long a checkpoint took: the longest counts for the wall time."""
        self._save_s = max(self._save_s, seconds)

    def ask_for_missing(self) -> None:
        """Ask all ranks to leave, so that missing ranks can be started again."""
        self._asks_for_missing = True

    def withdraw_missing(self) -> None:
        """Withdraw :meth:`ask_for_missing`, which all ranks have received."""
        self._asks_for_missing = False

    @property
    def code(self) -> int:
        """0, the number of the received signal, `CLOCK`, or `MISSING`."""
        if not self._signal and self._wall_time_s:
            left_s = self._wall_time_s - self.elapsed_s
            if left_s <= margin_s(self._wall_time_s, self._save_s):
                return CLOCK
        return self._signal or (MISSING if self._asks_for_missing else 0)

    @property
    def ends_s(self) -> float | None:
        """Unix time, in seconds, at which the wall time is over; None without a limit."""
        if not self._wall_time_s:
            return None
        return time.time() + self._wall_time_s - (time.monotonic() - self._started)

    @property
    def is_requested(self) -> bool:
        """Whether a signal or the clock asks this rank to stop."""
        return self.code not in (0, MISSING)

    def listen(self, *, interrupts: bool = True) -> None:
        """Handle the signals, unless the script handles them; on the main thread only.

        Args:
            interrupts: SIGINT, too.
        """
        if threading.current_thread() is not threading.main_thread():
            return
        usual = (signal.SIG_DFL, signal.default_int_handler)
        asked = SIGNALS if interrupts else SIGNALS[:-1]
        before = {n: signal.getsignal(n) for n in asked if signal.getsignal(n) in usual}
        for number in before:
            signal.signal(number, self._received)

        def give_back() -> None:
            for number, handler in before.items():
                if signal.getsignal(number) == self._received:
                    signal.signal(number, handler)
            let_through()

        def let_through() -> None:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, before)

        # A process that ends a child by a signal, as a pool does with its workers, waits for its
        # end. So no signal may reach the child before it has restored the handlers.
        os.register_at_fork(
            before=lambda: signal.pthread_sigmask(signal.SIG_BLOCK, before),
            after_in_parent=let_through,
            after_in_child=give_back,
        )

    def _received(self, number: int, frame: Any) -> None:
        if self._interrupts_itself and number == signal.SIGINT:
            self._interrupts_itself = False
            raise KeyboardInterrupt
        if self._signal and number == signal.SIGINT:
            ft.fail_stop("interrupted twice")
        self._signal = self._signal or number
        if self._raises:
            self._raises = False  # the run ends now
            raise stopped_in_custom_loop()
