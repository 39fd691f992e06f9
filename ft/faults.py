"""Faults on purpose: what they are, how they are written, and setting them off.

A fault is written ``KIND:key=value,...``, for example ``kill:rank=2,step=40`` or
``kill:rank=1+3,step=40,at=recovery``. ``step`` counts the training steps of the
whole script from 0.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ft.errors import FaultSyntaxError, InjectedFault

__all__ = ["KINDS", "PHASES", "Fault", "Injector", "check_faults", "parse_fault"]

PHASES = (
    "compute",
    "before-exchange",
    "in-exchange",
    "after-exchange",
    "recovery",
    "checkpoint",
    "apoptosis",
    "apoptosis-deciding",
    "apoptosis-rebuilding",
    "validation",
)

# kind -> (what it does, keys it takes beside rank, step, at)
KINDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "kill": ("SIGKILL, as when the kernel or the scheduler ends a process", ()),
    "segv": ("SIGSEGV, as a bug in native code does", ()),
    "exit": ("sys.exit(1) in user code", ()),
    "raise": ("an uncaught exception in user code", ()),
    "stop": ("SIGSTOP: alive, silent for ever", ()),
    "slow": ("computes `factor` times as long, for `steps` steps", ("factor", "steps")),
    "nan": ("a not-a-number in this rank's gradients", ()),
    "node": ("SIGKILL of every rank on `host`", ("host",)),
}

_LETHAL = frozenset({"kill", "segv", "exit", "raise", "stop", "node"})
_WANTED = "wanted KIND:key=value,... such as kill:rank=2,step=40"


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One planned fault. ``ranks`` are original ranks; empty for kind ``node``."""

    kind: str
    ranks: tuple[int, ...]
    step: int
    at: str = "compute"
    host: str = ""
    factor: float = 2.0
    steps: int = 1
    text: str = field(default="", compare=False)

    @property
    def lethal(self) -> bool:
        """Whether the rank it hits is lost."""
        return self.kind in _LETHAL

    def hits(self, rank: int, host: str) -> bool:
        return self.host == host if self.kind == "node" else rank in self.ranks


def parse_fault(text: str) -> Fault:
    """Read one fault from its written form.

    Raises:
        FaultSyntaxError: one line that names the part that is wrong.
    """
    kind, separator, rest = text.partition(":")
    if kind not in KINDS:
        raise FaultSyntaxError(
            f"fault {text!r}: kind must be one of {', '.join(KINDS)}. Received: {kind!r}; {_WANTED}"
        )
    allowed = {"step", "at", *KINDS[kind][1]} | ({"rank"} if kind != "node" else set())
    values: dict[str, str] = {}
    for part in rest.split(",") if separator and rest else []:
        key, equals, value = part.partition("=")
        if not equals or key not in allowed or key in values:
            raise FaultSyntaxError(
                f"fault {text!r}: keys of {kind} are {', '.join(sorted(allowed))}, each once. "
                f"Received: {part!r}"
            )
        values[key] = value
    for key in ("step", "host" if kind == "node" else "rank"):
        if key not in values:
            raise FaultSyntaxError(f"fault {text!r}: {key} is missing; {_WANTED}")
    at = values.get("at", "compute")
    if at not in PHASES:
        raise FaultSyntaxError(
            f"fault {text!r}: at must be one of {', '.join(PHASES)}. Received: {at!r}"
        )
    factor = _number(text, "factor", values.get("factor", "2"), float)
    if not factor >= 1:
        raise FaultSyntaxError(f"fault {text!r}: factor must be at least 1. Received: {factor}")
    ranks = tuple(
        int(_number(text, "rank", r, int)) for r in values.get("rank", "").split("+") if r
    )
    if kind != "node" and not ranks:
        raise FaultSyntaxError(f"fault {text!r}: rank is empty; {_WANTED}")
    return Fault(
        kind=kind,
        ranks=ranks,
        step=int(_number(text, "step", values["step"], int)),
        at=at,
        host=values.get("host", ""),
        factor=factor,
        steps=int(_number(text, "steps", values.get("steps", "1"), int)),
        text=text,
    )


def check_faults(faults: Iterable[Fault], *, ranks: int) -> None:
    """Refuse a plan that names ranks that do not exist or leaves nobody alive.

    Raises:
        FaultSyntaxError: one line that names the fault or the excess.
    """
    dead: set[int] = set()
    for fault in faults:
        if fault.ranks and max(fault.ranks) >= ranks:
            raise FaultSyntaxError(
                f"fault {fault.text!r}: rank must be below the number of ranks, {ranks}. "
                f"Received: rank={max(fault.ranks)}"
            )
        if fault.lethal:
            dead.update(fault.ranks)
    if len(dead) >= ranks:
        raise FaultSyntaxError(
            f"more faults than ranks: at least one rank of {ranks} must survive. "
            f"Received: faults that end ranks {sorted(dead)}"
        )


def _number(text: str, key: str, value: str, kind: type[int] | type[float]) -> float:
    try:
        number = kind(value)
    except ValueError:
        number = -1
    if number < 0:
        wanted = "a whole number from 0" if kind is int else "a number from 0"
        raise FaultSyntaxError(f"fault {text!r}: {key} must be {wanted}. Received: {value!r}")
    return number


class Injector:
    """Sets off the faults that hit this rank. Local; each fault fires once.

    Args:
        faults: the whole plan.
        rank: my original rank.
        host: my host's name.
        before: called with the fault just before it takes effect, to record it.
    """

    def __init__(
        self,
        faults: Iterable[Fault],
        *,
        rank: int,
        host: str = "",
        before: Callable[[Fault], None] = lambda fault: None,
    ) -> None:
        self._waiting = [fault for fault in faults if fault.hits(rank, host)]
        self._before = before
        self._slow: Fault | None = None
        self.step = 0

    def at(self, phase: str) -> None:
        """The run has reached *phase* of the current ``step``: fire what was planned for here."""
        if not self._waiting:
            return
        for fault in self._take(phase):
            self._before(fault)
            if fault.kind == "slow":
                self._slow = fault
            else:
                _strike(fault)

    def wants_nan(self) -> bool:
        """Whether this step's gradients should be spoiled."""
        return any(f.kind == "nan" and f.step == self.step for f in self._waiting)

    def take_nan(self) -> bool:
        """Consume a planned ``nan`` of this step; whether there was one."""
        due = [f for f in self._waiting if f.kind == "nan" and f.step == self.step]
        for fault in due:
            self._waiting.remove(fault)
            self._before(fault)
        return bool(due)

    def during(self, phase: str) -> bool:
        """Arm a fault that must strike while the next call runs; whether one was armed."""
        due = self._take(phase) if self._waiting else []
        for fault in due:
            self._before(fault)
            if fault.kind == "slow":
                self._slow = fault
            else:
                threading.Thread(target=_strike, args=(fault, True), daemon=True).start()
        return bool(due)

    def drag(self, busy_s: float) -> None:
        """After *busy_s* seconds of computation: stretch it while a ``slow`` fault lasts."""
        fault = self._slow
        if fault is None:
            return
        if self.step >= fault.step + fault.steps:
            self._slow = None
            return
        time.sleep(busy_s * (fault.factor - 1))

    @property
    def unfired(self) -> tuple[Fault, ...]:
        """Faults meant for this rank that have not fired."""
        return tuple(self._waiting)

    def _take(self, phase: str) -> list[Fault]:
        due = [
            f for f in self._waiting if f.step == self.step and f.at == phase and f.kind != "nan"
        ]
        for fault in due:
            self._waiting.remove(fault)
        return due


def _strike(fault: Fault, from_thread: bool = False) -> None:
    if fault.kind == "raise":
        raise InjectedFault(f"injected fault {fault.text!r}")
    if fault.kind == "exit" and not from_thread:  # a thread's SystemExit ends the thread only
        raise SystemExit(1)
    number = {"segv": signal.SIGSEGV, "stop": signal.SIGSTOP}.get(fault.kind, signal.SIGKILL)
    os.kill(os.getpid(), number)
