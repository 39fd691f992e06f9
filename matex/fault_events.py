"""What a rank writes about faults while they happen; :mod:`matex.fault_records` reads it."""

from __future__ import annotations

import ft
from matex.events import EventLog
from matex.step_report import Replay

__all__ = ["record_fault", "record_recovery", "record_replay"]


def record_fault(events: EventLog, fault: ft.Fault, *, step: int) -> None:
    """*fault* is about to strike this rank, in *step*."""
    events.write(
        "fault",
        fault=fault.text,
        kind=fault.kind,
        step=step if fault.step is None else fault.step,
        at=fault.at or f"event {fault.event}",
        lethal=fault.lethal,
    )


def record_recovery(events: EventLog, recovery: ft.Recovery, *, step: int) -> None:
    """The communicator is whole again, without the ranks that were lost."""
    events.write(
        "recovered",
        step=step,
        operation=recovery.operation,
        finished_by_peer=recovery.finished,
        generation=recovery.after.generation,
        lost=[member.rank for member in recovery.lost],
        detect_time_s=recovery.detect_time_s,
        repaired_time_s=recovery.repaired_time_s,
        world_size_before=recovery.before.size,
        world_size_after=recovery.after.size,
    )


def record_replay(events: EventLog, replay: Replay, *, step: int, generation: int) -> None:
    """The step that deaths interrupted is done."""
    events.write(
        "replayed",
        step=step,
        generation=generation,
        at_risk={str(rank): samples for rank, samples in replay.at_risk.items()},
        recomputed=replay.recomputed,
        seconds=replay.seconds,
        samples_lost=replay.samples_lost,
        samples_repeated=replay.samples_repeated,
    )
