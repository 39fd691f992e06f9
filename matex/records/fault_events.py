"""Events about faults, written when they happen; `fault_records` summarises them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import ft
from matex.records.event_order import AGAIN
from matex.records.events import Event, EventLog
from matex.records.step_report import DeathCost

__all__ = [
    "joining_text",
    "loss_text",
    "lost_spares",
    "ranks_text",
    "record_death_cost",
    "record_fault",
    "record_joining",
    "record_recovery",
    "recovery_line",
]


def record_fault(events: EventLog, fault: ft.Fault, *, step: int) -> None:
    """Record that *fault* is about to strike this rank, in *step*."""
    events.write(
        "fault",
        fault=fault.text,
        kind=fault.kind,
        step=step if fault.step is None else fault.step,
        at=fault.at or f"event {fault.event}",
        lethal=fault.lethal,
    )


def record_recovery(
    events: EventLog,
    recovery: ft.Recovery,
    *,
    step: int,
    sizes: tuple[int, int],
    asked_to_leave: Collection[int],
) -> None:
    """Record that the communicator was repaired, without the lost ranks.

    Args:
        sizes: numbers of working ranks before and after.
        asked_to_leave: ranks that were asked to leave.
    """
    lost = [member.rank for member in recovery.lost]
    events.write(
        "recovered",
        step=step,
        operation=recovery.operation,
        finished_by_peer=recovery.finished,
        generation=recovery.after.generation,
        lost=lost,
        left=[rank for rank in lost if rank in asked_to_leave],
        detect_time_s=recovery.detect_time_s,
        repaired_time_s=recovery.repaired_time_s,
        joined=dict(recovery.replaced),
        world_size_before=sizes[0],
        world_size_after=sizes[1],
    )


def record_joining(
    events: EventLog, recovery: ft.Recovery, *, step: int, sizes: tuple[int, int]
) -> None:
    """Record that spares have taken the places of ranks lost in an earlier recovery.

    Args:
        sizes: numbers of working ranks before and after.
    """
    events.write(
        "joined",
        step=step,
        generation=recovery.after.generation,
        joined=dict(recovery.replaced),
        world_size_before=sizes[0],
        world_size_after=sizes[1],
    )


def lost_spares(events: Iterable[Event]) -> set[int]:
    """Spares that have died while they waited, since the last start of the ranks. Pure."""
    found: set[int] = set()
    for event in events:
        if event["event"] in AGAIN:
            found.clear()
        elif event["event"] == "spare-lost":
            found.update(event["lost"])
    return found


def joining_text(joined: Mapping[Any, int]) -> str:
    """Text that names the ranks that joined. Pure.

    Args:
        joined: rank that joined, by the rank whose place it took; by itself if the place is new.
    """
    return ", ".join(
        f"rank {spare} as a further one"
        if int(place) == spare
        else f"rank {spare} for rank {place}"
        for place, spare in joined.items()
    )


def loss_text(lost: Iterable[int], left: Collection[int], *, step: str) -> str:
    """Text that names the *lost* ranks, and apart from them those that *left* on request. Pure."""
    died = [rank for rank in lost if rank not in left]
    parts = [f"lost {ranks_text(died)} in step {step}"] if died else []
    if left:
        parts.append(f"{ranks_text(left)} left before step {step}")
    return ", ".join(parts)


def ranks_text(ranks: Iterable[object]) -> str:
    """Text that names *ranks*, such as "ranks 1, 2". Pure."""
    names = ", ".join(map(str, ranks))
    return f"ranks {names}" if "," in names else f"rank {names}"


def recovery_line(
    recovery: ft.Recovery, *, step: int, size: int, of: int, asked_to_leave: Collection[int] = ()
) -> str:
    """Line about *recovery* for the user. Pure.

    Args:
        step: number of the step.
        size: number of ranks that go on.
        of: number of ranks at the start.
        asked_to_leave: ranks that were asked to leave.
    """
    parts = []
    if recovery.lost:
        lost = [member.rank for member in recovery.lost]
        left = [rank for rank in lost if rank in asked_to_leave]
        parts.append(loss_text(lost, left, step=str(step)))
    if recovery.replaced:
        parts.append(f"{joining_text(dict(recovery.replaced))} from the reserve")
    going_on = f"going on with {size} of {max(size, of)} ranks"
    return f"{', '.join(parts)}; {going_on} after {recovery.repair_s * 1e3:.0f} ms"


def record_death_cost(events: EventLog, cost: DeathCost, *, step: int, generation: int) -> None:
    """Record that the step interrupted by deaths is done."""
    events.write(
        "replayed",
        step=step,
        generation=generation,
        at_risk={str(rank): samples for rank, samples in cost.at_risk.items()},
        recomputed=cost.recomputed,
        seconds=cost.seconds,
        samples_lost=cost.samples_lost,
        samples_repeated=cost.samples_repeated,
    )
