"""Injected faults: their kinds and their written form. Pure.

A fault is written ``KIND:key=value,...``. It is due

* in a step: ``kill:rank=2,step=40``, counted over the whole script from 0;
* from a time on: ``kill:rank=2,time=12.5``, in seconds since the ranks started;
* after an event: ``kill:rank=2,event=checkpoint,count=3``, the third such event of that rank.

A fault that is due strikes in the phase ``at``, ``compute`` by default; a fault that waits for
an event and has no ``at`` strikes with the event.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from ft.errors import FaultSyntaxError
from ft.fault_values import FaultValues

__all__ = ["EVENTS", "KINDS", "PHASES", "Fault", "check_faults", "parse_fault"]

PHASES = (
    "compute",
    "before-exchange",
    "in-exchange",
    "after-exchange",
    "in-strategy",
    "in-consensus",
    "recovery",
    "checkpoint",
    "apoptosis",
    "apoptosis-deciding",
    "apoptosis-rebuilding",
    "validation",
)

EVENTS = (
    "start",
    "resumed",
    "fit",
    "epoch",
    "checkpoint",
    "fault",
    "recovered",
    "first-step",
)

TARGETS = ("weights", "optimizer")

# kind -> (effect, keys beside rank and step, time or event)
KINDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "kill": ("SIGKILL, as when the kernel or the scheduler ends a process", ("at",)),
    "segv": ("SIGSEGV, as a bug in native code does", ("at",)),
    "exit": ("sys.exit(1) in user code", ("at",)),
    "raise": ("an uncaught exception in user code", ("at",)),
    "stop": ("SIGSTOP: alive, silent for ever", ("at",)),
    "hang": ("stuck in user code for ever", ("at",)),
    "slow": ("computes `factor` times as long, for `steps` steps", ("at", "factor", "steps")),
    "nan": ("a not-a-number in this rank's gradients", ("at",)),
    "bitflip": ("`bit` of one number of `target` flips: " + ", ".join(TARGETS), ("target", "bit")),
    "node": ("SIGKILL of every rank on `host`", ("at", "host")),
}

_LETHAL = frozenset({"kill", "segv", "exit", "raise", "stop", "hang", "node"})
_WHEN = ("step", "time", "event")
_WANTED = "wanted KIND:key=value,... such as kill:rank=2,step=40"


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One planned fault; it is due by exactly one of ``step``, ``time_s`` and ``event``.

    Attributes:
        kind: key of :data:`KINDS`.
        ranks: original ranks that the fault hits; empty for kind ``node``.
        step: training step of the script, counted from 0.
        time_s: seconds since the ranks started.
        event: one of :data:`EVENTS`.
        count: occurrence of the event on that rank, 1 for the first.
        at: one of :data:`PHASES`; "" for a fault that strikes with its event.
        host: name of the host, for kind ``node``.
        factor: ratio of times, for kind ``slow``; at least 1.
        steps: number of slow steps, for kind ``slow``.
        target: "weights" or "optimizer", for kind ``bitflip``.
        bit: position of the bit that flips, from 0 to 31.
        text: written form.
        where: file and line from which the fault was read; "" if there is none.

    Example:
        >>> fault = ft.parse_fault("kill:rank=2,step=40")
        >>> fault.kind, fault.ranks, fault.step, fault.lethal
        ('kill', (2,), 40, True)
    """

    kind: str
    ranks: tuple[int, ...]
    step: int | None = None
    time_s: float | None = None
    event: str = ""
    count: int = 1
    at: str = "compute"
    host: str = ""
    factor: float = 2.0
    steps: int = 1
    target: str = "weights"
    bit: int = 20
    text: str = field(default="", compare=False)
    where: str = field(default="", compare=False)

    @property
    def lethal(self) -> bool:
        """Whether the fault ends the rank that it hits."""
        return self.kind in _LETHAL

    @property
    def name(self) -> str:
        """Text of the fault, after the file and line it was read from, for messages."""
        return f"{self.where}: fault {self.text!r}" if self.where else f"fault {self.text!r}"

    def hits(self, rank: int, host: str) -> bool:
        """Whether the fault hits a rank.

        Args:
            rank: original rank.
            host: name of the rank's host.

        Returns:
            True if the fault names the rank or, for kind ``node``, the host.
        """
        return self.host == host if self.kind == "node" else rank in self.ranks

    def values(self) -> dict[str, str]:
        """Keys and values of the written form, without defaults.

        Returns:
            Text of each value, by key.
        """
        default = Fault(kind="", ranks=(), at="" if self.event else "compute")
        values = {
            "rank": "+".join(map(str, self.ranks)),
            "host": self.host,
            "step": "" if self.step is None else str(self.step),
            "time": "" if self.time_s is None else _written(self.time_s),
            "event": self.event,
        }
        for key in ("count", "at", "factor", "steps", "target", "bit"):
            value = getattr(self, key)
            if value != getattr(default, key):
                values[key] = _written(value)
        return {key: value for key, value in values.items() if value}

    def written(self) -> str:
        """Written form of the fault.

        Returns:
            Text from which :func:`parse_fault` makes this fault.
        """
        return f"{self.kind}:" + ",".join(f"{key}={value}" for key, value in self.values().items())


def _written(value: object) -> str:
    """Shortest text from which *value* is read again; of a whole number without a point."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return str(value)


def parse_fault(text: str) -> Fault:
    """Read one fault from its written form. Pure.

    Args:
        text: written form, ``KIND:key=value,...``.

    Returns:
        The fault; its ``text`` is *text*.

    Raises:
        FaultSyntaxError: a part is wrong; the message, one line, names the part.

    Example:
        >>> ft.parse_fault("slow:rank=0,step=5,factor=3,steps=50").factor
        3.0
        >>> ft.parse_fault("kill:rank=2")
        Traceback (most recent call last):
        ft.errors.FaultSyntaxError: fault 'kill:rank=2': step is missing; ...
    """
    kind, separator, rest = text.partition(":")
    if kind not in KINDS:
        raise FaultSyntaxError(
            f"fault {text!r}: kind must be one of {', '.join(KINDS)}. Received: {kind!r}; {_WANTED}"
        )
    values = FaultValues(text, {})
    who = "host" if kind == "node" else "rank"
    allowed = {who, *_WHEN, "count", *KINDS[kind][1]}
    for part in rest.split(",") if separator and rest else []:
        key, equals, value = part.partition("=")
        if not equals or key not in allowed or key in values.given:
            raise FaultSyntaxError(
                f"fault {text!r}: keys of {kind} are {', '.join(sorted(allowed))}, each once. "
                f"Received: {part!r}"
            )
        values.given[key] = value
    due = [key for key in _WHEN if key in values.given]
    if not due:
        raise FaultSyntaxError(f"fault {text!r}: step is missing; {_WANTED}")
    if len(due) > 1:
        raise FaultSyntaxError(
            f"fault {text!r}: one of step, time and event says when. Received: {' and '.join(due)}"
        )
    if not values.given.get(who):
        problem = "empty" if who in values.given else "missing"
        raise FaultSyntaxError(f"fault {text!r}: {who} is {problem}; {_WANTED}")
    at_event = due == ["event"]
    if "count" in values.given and not at_event:
        raise FaultSyntaxError(f"fault {text!r}: count goes with event. Received: {due[0]}")
    at = values.one_of("at", PHASES, "" if at_event else "compute")
    if kind == "hang" and at.startswith("in-"):
        raise FaultSyntaxError(
            f"fault {text!r}: user code hangs outside of the exchange; at={at} is for stop"
        )
    factor = values.real("factor", "2")
    if not factor >= 1:
        raise FaultSyntaxError(f"fault {text!r}: factor must be at least 1. Received: {factor}")
    return Fault(
        kind=kind,
        ranks=values.ranks() if who == "rank" else (),
        step=values.whole("step", values.given["step"]) if due == ["step"] else None,
        time_s=values.real("time", "") if due == ["time"] else None,
        event=values.one_of("event", EVENTS, ""),
        count=values.whole("count", values.given.get("count", "1"), least=1),
        at=at,
        host=values.given.get("host", ""),
        factor=factor,
        steps=values.whole("steps", values.given.get("steps", "1")),
        target=values.one_of("target", TARGETS, "weights"),
        bit=values.whole("bit", values.given.get("bit", "20"), limit=31),
        text=text,
    )


def check_faults(
    faults: Iterable[Fault],
    *,
    ranks: int,
    replaced: bool = False,
    hosts: Collection[str] | None = None,
) -> None:
    """Refuse a plan that names nonexistent ranks or hosts, or leaves no rank alive. Pure.

    Args:
        faults: the whole plan.
        ranks: number of ranks at the start.
        replaced: whether dead ranks are started again, so that all may die. False by default.
        hosts: names of the hosts of the ranks; None, the default, while they are not known.

    Raises:
        FaultSyntaxError: the message, one line, names the fault or the ranks.

    Example:
        >>> ft.check_faults([ft.parse_fault("kill:rank=2,step=40")], ranks=4)
    """
    dead: set[int] = set()
    for fault in faults:
        if fault.ranks and max(fault.ranks) >= ranks:
            raise FaultSyntaxError(
                f"{fault.name}: rank must be below the number of ranks, {ranks}. "
                f"Received: rank={max(fault.ranks)}"
            )
        if fault.host and hosts is not None and fault.host not in hosts:
            raise FaultSyntaxError(
                f"{fault.name}: host must be one that ranks are on: {', '.join(sorted(hosts))}. "
                f"Received: host={fault.host}"
            )
        if fault.lethal:
            dead.update(fault.ranks)
        if len(dead) >= ranks and not replaced:
            where = f"{fault.where}: " if fault.where else ""
            raise FaultSyntaxError(
                f"{where}more faults than ranks: at least one rank of {ranks} must survive. "
                f"Received: faults that end ranks {sorted(dead)}"
            )
