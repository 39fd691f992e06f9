"""The curves that events are points of."""

from __future__ import annotations

from typing import Any

from matex.records.events import Event
from matex.records.scalars import ScalarReading, Scalars


def event(time_s: float, name: str, step: int = 7, **fields: Any) -> Event:
    return {"time_s": time_s, "rank": 0, "event": name, "step": step, **fields}


def progress(time_s: float, step: int, samples: int, loss: float | None = 0.5) -> Event:
    return event(
        time_s, "progress", step, samples=samples, world_size=3, steps=10, step_s=0.25,
        exchange_s=0.125, loss=loss,
    )  # fmt: skip


def test_progress_gives_times_loss_ranks_and_from_the_second_on_throughput() -> None:
    reading = ScalarReading()
    known = {"progress/step_s": 0.25, "progress/exchange_s": 0.125, "progress/ranks": 3.0}
    first = reading.read(progress(10.0, 10, 640))
    assert first == Scalars(10.0, 11, {**known, "progress/loss": 0.5})
    second = reading.read(progress(12.0, 20, 1280, loss=None))
    assert second == Scalars(12.0, 21, {**known, "progress/samples_per_s": 320.0})


def test_epochs_have_the_metrics_and_nothing_else() -> None:
    found = ScalarReading().read(
        event(
            1.0, "epoch", 32, epoch=1, loss=0.25, val_loss=0.5, rows={"read": 3}, weights_hash="a"
        )
    )
    assert found == Scalars(1.0, 32, {"epoch/loss": 0.25, "epoch/val_loss": 0.5})


def test_apoptosis_gives_parameters_and_the_units_that_are_left() -> None:
    changes = [
        {"layer": "dense", "units_from": 8, "units_to": 5, "kept": True},
        {"layer": "other", "units_from": 4, "units_to": 2, "kept": False},
    ]
    found = ScalarReading().read(
        event(
            1.0, "apoptosis", epoch=3, changes=changes, parameters=100, flops=200,
            loss_before=0.5, loss_after=0.625, loss_allowed=None, at_risk=0.25,
        )
    )  # fmt: skip
    assert found is not None
    assert found.values == {
        "apoptosis/parameters": 100.0, "apoptosis/flops": 200.0, "apoptosis/loss_before": 0.5,
        "apoptosis/loss_after": 0.625, "apoptosis/at_risk": 0.25,
        "apoptosis/units/dense": 5.0, "apoptosis/units/other": 4.0,
    }  # fmt: skip
    assert found.text == "apoptosis after epoch 3: dense 8 → 5"


def test_faults_and_recoveries_are_told_in_words() -> None:
    reading = ScalarReading()
    sizes = {"world_size_before": 3, "world_size_after": 2}
    lost = reading.read(event(1.0, "recovered", lost=[1, 2], joined={"1": 3}, **sizes))
    assert lost is not None
    assert lost.text == "lost rank 1, 2, rank 3 for rank 1; 3 → 2 ranks"
    left = reading.read(event(2.0, "recovered", lost=[1], left=[1], joined={}, **sizes))
    assert left.text == "rank 1 left on request; 3 → 2 ranks"
    assert lost.values == {"progress/ranks": 2.0}
    texts = {
        "fault": {"fault": "kill:rank=1,step=7"},
        "spare-lost": {"lost": [4]},
        "nonfinite": {"ranks": [0]},
    }
    said = [reading.read(event(2.0, name, **fields)) for name, fields in texts.items()]
    assert [one and one.text for one in said] == [
        "fault kill:rank=1,step=7", "lost spare 4", "not finite on rank 0",
    ]  # fmt: skip


def test_what_a_restart_makes_again_replaces_what_was_lost() -> None:
    found = ScalarReading().read(event(1.0, "resumed", 16))
    text = "continued from the checkpoint of step 16"
    assert found == Scalars(1.0, 16, {}, text, forgets_from=17)


def test_other_events_are_no_points() -> None:
    assert ScalarReading().read(event(1.0, "time-outs")) is None
