"""Whether a run that was lost is started again, when, and with how many ranks. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import ft
from matex.errors import InputError
from matex.records.events import Event

__all__ = [
    "Attempt",
    "GiveUp",
    "StartAgain",
    "decide",
    "drained_in",
    "faults_left",
    "hosts_text",
    "members_of",
    "ranks_in_words",
    "read_hosts",
    "silent_part_is_larger",
    "spread_over",
]

#: How often the same step may fail before it is given up.
SAME_STEP = 3
_LONGEST_S = 60.0


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """A lost start of the ranks.

    Args:
        step: last training step that had begun; -1 if none had.
        started: whether any rank had met the others.
        reason: cause of its end, for messages.
        missed: whether a rank died on the way, for which the others waited.
    """

    step: int
    started: bool
    reason: str
    missed: bool = False


@dataclass(frozen=True)
class StartAgain:
    """A new start after *delay_s* seconds."""

    delay_s: float


@dataclass(frozen=True)
class GiveUp:
    """The end of all attempts. *reason* ends a sentence about the last attempt; may be empty."""

    reason: str = ""


def decide(attempts: Sequence[Attempt], *, limit: int) -> StartAgain | GiveUp:
    """Decide whether to start again after *attempts*, all lost, at most *limit* times.

    An attempt that got further than all before it made progress: the next one follows after a
    second. Each attempt that did not doubles the delay, up to a minute, and the third in a row that
    ends at one step is the last, because further ones would fail there, too.
    """
    if not limit:
        return GiveUp()
    if not any(attempt.started or attempt.missed for attempt in attempts):
        return GiveUp("a start that fails at once would fail again")
    if len(attempts) > limit:
        return GiveUp(f"{limit} restarts were made (--max-restarts)")
    stuck = _without_progress([attempt.step for attempt in attempts])
    if stuck + 1 >= SAME_STEP:
        if not any(attempt.started for attempt in attempts):
            return GiveUp(f"the start failed {SAME_STEP} times in a row")
        step = max(attempt.step for attempt in attempts)
        return GiveUp(f"step {max(step, 0)} failed {SAME_STEP} times in a row")
    return StartAgain(min(_LONGEST_S, 2.0**stuck))


def _without_progress(steps: Sequence[int]) -> int:
    """Number of the last attempts that got no further than the earlier ones."""
    stuck, furthest = 0, -2
    for step in steps:
        stuck = 0 if step > furthest else stuck + 1
        furthest = max(furthest, step)
    return stuck


def members_of(events: Iterable[Event]) -> dict[int, tuple[str, str]]:
    """The machine of each member of the last world that the files tell of.

    It is the name by which its host calls itself, and the boot of the kernel there.

    Args:
        events: events of one start, in order of time.
    """
    members: dict[int, tuple[str, str]] = {}
    left: set[int] = set()
    for event in events:
        if event["event"] == "start":
            members[event["rank"]] = event["host"], event.get("boot", "")
        elif event["event"] in ("recovered", "spare-lost"):
            left.update(event["lost"])
        elif event["event"] == "resize" and not event["refused"]:
            left.update(event["leaving"])
    return {rank: machine for rank, machine in members.items() if rank not in left}


def drained_in(events: Iterable[Event]) -> set[str]:
    """Hosts that ranks left on request, as they call themselves.

    Args:
        events: events of one start, in order of time.
    """
    hosts: dict[int, str] = {}
    drained: set[str] = set()
    for event in events:
        if event["event"] == "start":
            hosts[event["rank"]] = event["host"]
        elif event["event"] == "resize" and event["host"] and not event["refused"]:
            drained.update(hosts[rank] for rank in event["leaving"] if rank in hosts)
    return drained


def silent_part_is_larger(
    members: Mapping[int, tuple[str, str]], heard: Collection[tuple[str, str]]
) -> bool:
    """Whether more members are elsewhere than on the machines that were *heard*.

    By the rule of :mod:`ft.quorum` they may then go on without asking. A part of half the members
    or fewer goes on only with leave of the launcher that started it, and ends itself if it cannot
    ask.
    """
    elsewhere = sum(machine not in heard for machine in members.values())
    return 2 * elsewhere > len(members)


def faults_left(
    planned: Sequence[ft.Fault], fired: Collection[str], *, ranks: int, gone: Collection[str] = ()
) -> tuple[str, ...]:
    """Faults still to be injected, in written form: each strikes once, and only existing ranks.

    Args:
        fired: texts of the faults that fired.
        gone: hosts on which nothing is started again, as they call themselves; none by default.
    """
    return tuple(
        fault.written()
        for fault in planned
        if fault.text not in fired
        and max(fault.ranks, default=0) < ranks
        and fault.host not in gone
    )


def read_hosts(text: str) -> dict[str, int]:
    """``a:2,b`` as {"a": 2, "b": 1}: hosts and how many ranks each takes.

    Raises:
        InputError: a host without a name, or a count that is none.
    """
    hosts: dict[str, int] = {}
    for part in text.split(","):
        name, colon, count = part.strip().partition(":")
        number = int(count) if count.isdecimal() else 0 if colon else 1
        if not name or number < 1:
            raise InputError(
                "--hosts wants names, and how many ranks each host takes, as in a:2,b:2. "
                f"Received: {text!r}"
            )
        hosts[name] = hosts.get(name, 0) + number
    return hosts


def hosts_text(hosts: Mapping[str, int]) -> str:
    """The inverse of `read_hosts`."""
    return ",".join(f"{name}:{count}" for name, count in hosts.items())


def spread_over(slots: Mapping[str, int], processes: int) -> dict[str, int]:
    """The number of *processes* on each host that gets any, by the *slots* of all. Pure.

    Each host gets one first, the largest before the others, and then as many as its slots tell.
    Without hosts nobody gets any.
    """
    taken = dict.fromkeys(slots, 0)
    for _ in range(processes if slots else 0):
        taken[min(slots, key=lambda host: (taken[host] > 0, (taken[host] + 1) / slots[host]))] += 1
    return {host: count for host, count in taken.items() if count}


def ranks_in_words(number: int) -> str:
    """Text for a number of ranks. Pure."""
    return "1 rank" if number == 1 else f"{number} ranks"
