"""The trace, and TensorBoard's curves, of runs whose ranks die, against what else they wrote."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tests.trace_format import read_trace, tracks_of
from tests.train.runs import Outcome, faults, matex_run

pytestmark = pytest.mark.usefixtures("forked_ranks")

EPOCHS, STEPS_OF_EPOCH, DEATH = 3, 16, 20
STEPS = EPOCHS * STEPS_OF_EPOCH
TRAINING = ["--epochs", str(EPOCHS), "--validate", "--optimizer", "sgd"]

Points = list[tuple[float, int, float]]


def read_scalars(report: Path) -> EventAccumulator:
    """The curves of *report*, as TensorBoard itself reads them."""
    read = EventAccumulator(str(report / "tensorboard"), size_guidance={"scalars": 0, "tensors": 0})
    read.Reload()
    return read


def points(read: EventAccumulator, tag: str) -> Points:
    return [(point.wall_time, point.step, point.value) for point in read.Scalars(tag)]


def texts(read: EventAccumulator) -> list[str]:
    return [one.tensor_proto.string_val[0].decode() for one in read.Tensors("log")]


def wanted(events: list[dict[str, Any]], name: str, field: str) -> Points:
    found = [(e["time_s"], e["step"] + 1, e[field]) for e in events if e["event"] == name]
    return [(time_s, step, pytest.approx(value, rel=1e-6)) for time_s, step, value in found]


def by_name(marks: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    found: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for mark in marks:
        found[mark["name"]].append(mark)
    return found


def tracks(outcome: Outcome, rank: int) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Track of *rank* → name → slices and instants."""
    content = read_trace(outcome.report / "trace.json")
    return {
        track: by_name(marks)
        for (process, track), marks in tracks_of(content).items()
        if process.startswith(f"rank {rank} (")
    }


@pytest.fixture(scope="module")
def with_spare(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """Two ranks and a spare, which takes the place of the leader."""
    fault = faults(f"kill:rank=0,step={DEATH},at=in-exchange")
    folder = tmp_path_factory.mktemp("with-spare")
    options = ["--spares", "1", "--checkpoint", folder / "saved", *fault]
    outcome = matex_run(folder, "classify.py", *TRAINING, ranks=2, options=options)
    assert outcome.status == 0, outcome.stderr
    assert outcome.summary["steps"] == STEPS
    return outcome


def test_the_trace_shows_who_lived_when(with_spare: Outcome) -> None:
    dead, survivor, spare = (tracks(with_spare, rank) for rank in range(3))
    assert set(dead["life"]) == {"working", "fault kill", "lost"}
    assert set(survivor["life"]) == {"working"}
    assert {"working", "in reserve", "takes the place of rank 0"} <= set(spare["life"])
    (worked,) = dead["life"]["working"]
    (struck,) = dead["life"]["fault kill"]
    assert worked["ts"] + worked["dur"] == struck["ts"]
    assert struck["args"]["step"] == DEATH
    (joined,) = spare["life"]["takes the place of rank 0"]
    (waited, *_) = spare["life"]["in reserve"]
    assert waited["ts"] < waited["ts"] + waited["dur"] == joined["ts"]
    assert struck["ts"] < joined["ts"]


def test_the_trace_has_every_step_of_each_rank_and_its_parts(with_spare: Outcome) -> None:
    made = {
        rank: [mark["args"]["step"] for mark in tracks(with_spare, rank)["training"]["step"]]
        for rank in range(3)
    }
    assert made == {
        0: list(range(DEATH)), 1: list(range(STEPS)), 2: list(range(DEATH, STEPS)),
    }  # fmt: skip
    training = tracks(with_spare, 1)["training"]
    assert len(training["exchange"]) == STEPS
    assert len(training["compute"]) >= STEPS - 1  # not of the one that was interrupted
    assert len(training["update"]) == STEPS - 1
    assert len(training["read"]) >= STEPS
    assert len(training["validation"]) == len(training["epoch"]) == EPOCHS
    assert len(training["evaluate"]) == len(training["predict"]) == 1
    assert {mark["args"]["rank"] for mark in training["wait"]} <= {0, 2}


def test_the_times_of_a_recovery_and_of_checkpoints_are_those_of_the_events(
    with_spare: Outcome,
) -> None:
    started = read_trace(with_spare.report / "trace.json")["otherData"]["started_unix_s"]
    recovery = tracks(with_spare, 1)["recovery"]
    (event,) = (e for e in with_spare.events if e["event"] == "recovered" and e["rank"] == 1)
    (repair,) = recovery["repair"]
    assert repair["ts"] / 1e6 == pytest.approx(event["detect_time_s"] - started, abs=1e-5)
    length = event["repaired_time_s"] - event["detect_time_s"]
    assert repair["dur"] / 1e6 == pytest.approx(length, abs=1e-5)
    (replay,) = recovery["replay"]
    assert repair["ts"] + repair["dur"] == replay["ts"]
    saved = [
        (mark["args"]["step"], mark["dur"])
        for rank in range(3)
        for mark in tracks(with_spare, rank).get("checkpoints", {}).get("checkpoint (files)", [])
    ]
    told = [
        (event["step"], pytest.approx(1e6 * event["seconds"], abs=10))
        for event in with_spare.events
        if event["event"] == "checkpoint"
    ]
    assert sorted(saved) == sorted(told, key=lambda one: one[0])
    assert saved


def test_tensorboard_reads_what_the_events_and_the_summary_say(with_spare: Outcome) -> None:
    read = read_scalars(with_spare.report)
    events = with_spare.events
    for field in ("loss", "step_s", "exchange_s"):
        assert points(read, f"progress/{field}") == wanted(events, "progress", field), field
    assert sum(e["steps"] for e in events if e["event"] == "progress") == STEPS
    ends = {e["step"]: e for e in events if e["event"] == "epoch" and e["rank"] == 1}
    for metric, value in with_spare.summary["metrics"].items():
        found = points(read, f"epoch/{metric}")
        assert [(step, v) for _, step, v in found] == [
            (step, pytest.approx(event[metric], rel=1e-6)) for step, event in ends.items()
        ]
        assert found[-1][2] == pytest.approx(value, rel=1e-6)
    assert len(ends) == EPOCHS
    ranks = points(read, "progress/ranks")
    assert {value for _, _, value in ranks} == {2.0}
    assert all(value > 0 for _, _, value in points(read, "progress/samples_per_s"))
    assert "lost rank 0, rank 2 for rank 0; 2 → 2 ranks" in texts(read)
    assert f"fault kill:rank=0,step={DEATH},at=in-exchange" in texts(read)
    assert len(list((with_spare.report / "tensorboard").iterdir())) == 2  # one of each leader


def test_a_restart_goes_on_in_the_same_trace_and_curves(tmp_path: Path) -> None:
    """Both ranks are killed, and start again from a checkpoint some steps before."""
    options = ["--max-restarts", "1", "--checkpoint", tmp_path / "saved", "--checkpoint-every", "9"]
    fault = faults(f"kill:rank=0+1,step={DEATH}")
    outcome = matex_run(tmp_path, "classify.py", *TRAINING, ranks=2, options=[*options, *fault])
    assert outcome.status == 0, outcome.stderr
    events = outcome.events
    (restart,) = (e for e in events if e["event"] == "restart")
    resumed = next(e for e in events if e["event"] == "resumed")
    whole = tracks_of(read_trace(outcome.report / "trace.json"))["the run", "life"]
    (mark,) = by_name(whole)["restart"]
    assert (mark["s"], mark["args"]["reason"]) == ("g", restart["reason"])
    for rank in range(2):
        found = tracks(outcome, rank)
        assert len(found["life"]["working"]) == 2
        steps = [step["args"]["step"] for step in found["training"]["step"]]
        assert steps == [*range(DEATH), *range(resumed["step"], STEPS)]
    read = read_scalars(outcome.report)
    notes = [e for e in events if e["event"] == "progress"]
    left = [e for e in notes if e["time_s"] > resumed["time_s"] or e["step"] < resumed["step"]]
    assert points(read, "progress/step_s") == wanted(left, "progress", "step_s")
    assert f"continued from the checkpoint of step {resumed['step']}" in texts(read)
