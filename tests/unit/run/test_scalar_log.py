"""The curves of a run that continues from a checkpoint, as TensorBoard itself reads them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from matex.records.events import Event
from matex.run.scalar_log import ScalarLog

EPOCH = 3  # steps
EPOCHS = (3, 6, 9)


def start(*, first: int, steps: int, samples: int | None = None) -> list[Event]:
    """Events of a leader that makes the steps from *first* on, and resumes at *samples*."""
    events: list[Event] = []
    if samples is not None:
        events.append({"event": "resumed", "step": first, "samples": samples})
    if first % EPOCH == 0 and samples:  # the end of an epoch was still to be made
        events.append({"event": "epoch", "step": first, "epoch": 0, "loss": 0.25})
    for step in range(first, steps):
        note = {"samples": 2 * step, "step_s": 1.0, "exchange_s": 1.0, "loss": 0.5, "world_size": 2}
        events.append({"event": "progress", "step": step, **note})
        if (step + 1) % EPOCH == 0:
            events.append({"event": "epoch", "step": step + 1, "epoch": 0, "loss": 0.5})
    return events


@pytest.mark.parametrize(
    ("at", "samples", "gone"),
    [
        (6, 0, []),
        (4, 2, []),
        (6, 6, [6]),  # saved after the last step of an epoch, before its end
    ],
)
def test_points_that_are_made_again_are_replaced_and_no_others(
    tmp_path: Path, at: int, samples: int, gone: list[int]
) -> None:
    again = start(first=at, steps=9, samples=samples)
    finished = start(first=9, steps=9, samples=0)  # and given once more
    for number, events in enumerate((start(first=0, steps=8), again, finished)):
        log = ScalarLog(tmp_path, complain=pytest.fail)
        for event in events:
            log.write({"time_s": 1.0 + number, "rank": 0, **event}, leads=True)
    read = EventAccumulator(str(tmp_path)).Reload()
    found = [(point.step, point.wall_time) for point in read.Scalars("epoch/loss")]
    assert found == [(s, 1.0 if s <= at and s not in gone else 2.0) for s in EPOCHS]
    steps = [(point.step, point.wall_time) for point in read.Scalars("progress/loss")]
    assert steps == [(s, 1.0 if s <= at else 2.0) for s in range(1, 10) if s not in gone]
