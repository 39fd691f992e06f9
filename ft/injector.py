"""Setting planned faults off, on the rank that they are for."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable

from ft.errors import InjectedFault
from ft.faults import Fault

__all__ = ["Injector"]

# These change numbers, where the program asks for them; the others strike by themselves.
_TAKEN = frozenset({"nan", "bitflip"})


class Injector:
    """Sets off the faults that hit this rank. Local; each fault fires once.

    ``step`` is the number of the running step, which the program counts. Times are
    counted from here.

    Args:
        faults: the whole plan.
        rank: my original rank.
        host: my host's name.
        before: called with the fault just before it takes effect, to record it.
        clock: seconds.
    """

    def __init__(
        self,
        faults: Iterable[Fault],
        *,
        rank: int,
        host: str = "",
        before: Callable[[Fault], None] = lambda fault: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._waiting = [fault for fault in faults if fault.hits(rank, host)]
        self._before = before
        self._clock = clock
        self._started = clock()
        self._heard: Counter[str] = Counter()
        self._slow: Fault | None = None
        self._slow_until = 0
        self.step = 0

    def at(self, phase: str) -> None:
        """The run has reached *phase* of the current ``step``: fire what was planned for here."""
        if self._waiting:
            self._set_off(self._due(phase))

    def heard(self, event: str) -> None:
        """This rank has recorded *event*: fire what was planned to go with it."""
        if self._waiting:
            self._heard[event] += 1
            self._set_off(self._due(""))

    def take(self, kind: str, target: str = "") -> list[Fault]:
        """What is due of *kind* (``nan``, or ``bitflip`` of *target*): for the caller to do."""
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
        """Arm a fault that must strike while the next call runs; whether one was armed."""
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
        """After *busy_s* seconds of computation: stretch it while a ``slow`` fault lasts."""
        if self._slow is None:
            return
        if self.step >= self._slow_until:
            self._slow = None
            return
        time.sleep(busy_s * (self._slow.factor - 1))

    @property
    def strikes(self) -> bool:
        """Whether something was planned for this rank that is not over."""
        return bool(self._waiting) or self._slow is not None

    @property
    def unfired(self) -> tuple[Fault, ...]:
        """Faults meant for this rank that have not fired."""
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
            if fault not in self._waiting:  # went off with the record of the one before
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
        raise SystemExit(1)
    if fault.kind == "hang":
        threading.Event().wait()
    number = {"segv": signal.SIGSEGV, "stop": signal.SIGSTOP}.get(fault.kind, signal.SIGKILL)
    os.kill(os.getpid(), number)
