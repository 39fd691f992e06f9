"""Injection of planned faults on the rank that they hit."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable

from ft.errors import InjectedExit, InjectedFault
from ft.faults import Fault

__all__ = ["Injector"]

# Faults that change numbers, taken by the program; all other kinds strike by themselves.
_TAKEN = frozenset({"nan", "bitflip"})


class Injector:
    """Injects the faults that hit this rank. Local; each fault fires once.

    ``step`` is the number of the running step, set by the program if it gives no function of that
    name. Fault times are counted from the construction.

    Args:
        faults: the whole plan.
        rank: original rank of this process.
        host: name of this rank's host, for faults of kind ``node``; "" by default.
        before: function called with the fault just before it takes effect, to record it.
        clock: function that returns seconds; ``time.monotonic`` by default.
        step: function that returns the number of the running step; None, the default, where the
            program sets it.

    Example:
        >>> injector = ft.Injector([ft.parse_fault("nan:rank=1,step=7")], rank=1)
        >>> injector.step = 7
        >>> [fault.kind for fault in injector.take("nan")]
        ['nan']
        >>> injector.strikes
        False
    """

    def __init__(
        self,
        faults: Iterable[Fault],
        *,
        rank: int,
        host: str = "",
        before: Callable[[Fault], None] = lambda fault: None,
        clock: Callable[[], float] = time.monotonic,
        step: Callable[[], int] | None = None,
    ) -> None:
        self._waiting = [fault for fault in faults if fault.hits(rank, host)]
        self._before = before
        self._clock = clock
        self._started = clock()
        self._heard: Counter[str] = Counter()
        self._slow: Fault | None = None
        self._slow_until = 0
        self._counted = step
        self._step = 0

    @property
    def step(self) -> int:
        """Number of the running step."""
        return self._step if self._counted is None else self._counted()

    @step.setter
    def step(self, step: int) -> None:
        """Set the number where no function gives it.

        Args:
            step: number of the running step.
        """
        self._step = step

    def at(self, phase: str) -> None:
        """Fire the faults that are due in *phase* of the current ``step``.

        Args:
            phase: one of :data:`ft.PHASES`.
        """
        if self._waiting:
            self._set_off(self._due(phase))

    def heard(self, event: str) -> None:
        """Fire the faults that are due with *event*, which this rank has recorded.

        Args:
            event: any name; plans can contain those of :data:`ft.EVENTS`.
        """
        if self._waiting:
            self._heard[event] += 1
            self._set_off(self._due(""))

    def take(self, kind: str, target: str = "") -> list[Fault]:
        """Remove and return the due faults that change numbers, for the caller to carry out.

        Args:
            kind: ``nan`` or ``bitflip``.
            target: "weights" or "optimizer" for ``bitflip``; "" for any, the default.

        Returns:
            Faults; each is returned once.
        """
        if not self._waiting:
            return []
        due = [
            fault
            for fault in self._waiting
            if fault.kind == kind and target in ("", fault.target) and self._is_due(fault)
        ]
        for fault in due:
            self._waiting.remove(fault)
            self._before(fault)
        return due

    def during(self, phase: str) -> bool:
        """Start the due faults of *phase* in a thread, so that they strike during the next call.

        Args:
            phase: one of :data:`ft.PHASES`.

        Returns:
            Whether a fault was due.
        """
        due = self._due(phase) if self._waiting else []
        for fault in due:
            self._waiting.remove(fault)
            self._before(fault)
            if fault.kind == "slow":
                self._slow_down(fault)
            else:
                threading.Thread(target=_strike, args=(fault, True), daemon=True).start()
        return bool(due)

    def drag(self, busy_s: float) -> None:
        """Sleep as long as a current ``slow`` fault stretches a computation.

        Args:
            busy_s: duration of the computation, seconds.
        """
        if self._slow is None:
            return
        if self.step >= self._slow_until:
            self._slow = None
            return
        time.sleep(busy_s * (self._slow.factor - 1))

    @property
    def strikes(self) -> bool:
        """Whether a fault for this rank has not fired, or a ``slow`` fault is not over."""
        return bool(self._waiting) or self._slow is not None

    @property
    def unfired(self) -> tuple[Fault, ...]:
        """Faults for this rank that have not fired."""
        return tuple(self._waiting)

    def _due(self, phase: str) -> list[Fault]:
        return [
            fault
            for fault in self._waiting
            if fault.at == phase and fault.kind not in _TAKEN and self._is_due(fault)
        ]

    def _is_due(self, fault: Fault) -> bool:
        if fault.time_s is not None:
            return self._clock() - self._started >= fault.time_s
        if fault.event:
            return self._heard[fault.event] >= fault.count
        # A survivor may have finished the step in which a peer died, and repairs in the next.
        late = fault.at == "recovery" and fault.step == self.step - 1
        return fault.step == self.step or late

    def _set_off(self, due: list[Fault]) -> None:
        for fault in due:
            if fault not in self._waiting:  # fired with the record of the previous one
                continue
            self._waiting.remove(fault)
            self._before(fault)
            if fault.kind == "slow":
                self._slow_down(fault)
            else:
                _strike(fault)

    def _slow_down(self, fault: Fault) -> None:
        self._slow, self._slow_until = fault, self.step + fault.steps


def _strike(fault: Fault, from_thread: bool = False) -> None:
    if fault.kind == "raise":
        raise InjectedFault(f"injected fault {fault.text!r}")
    if fault.kind == "exit" and not from_thread:  # a thread's SystemExit ends the thread only
        raise InjectedExit(f"injected fault {fault.text!r}")
    if fault.kind == "hang":
        threading.Event().wait()
    number = {"segv": signal.SIGSEGV, "stop": signal.SIGSTOP}.get(fault.kind, signal.SIGKILL)
    os.kill(os.getpid(), number)
