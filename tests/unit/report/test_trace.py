"""The trace of a run, made of its events and the parts of its ranks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from matex.records.events import Event
from matex.records.trace_part import part_name
from matex.report.step_slices import Parts, StepSample
from matex.report.trace import TRACE, trace, write_trace
from tests.trace_format import check_format, read_trace, tracks_of

S = 1_000_000  # a second


def event(time_s: float, rank: int, name: str, **fields: Any) -> Event:
    return {"time_s": 1000.0 + time_s, "rank": rank, "event": name, **fields}


def starts(time_s: float, hosts: str) -> list[Event]:
    return [
        event(time_s, rank, "start", world_size=2, host=host) for rank, host in enumerate(hosts)
    ]


def recovered(rank: int, **more: Any) -> Event:
    fields = {"step": 20, "generation": 1, "world_size_after": 2, "joined": {}, "lost": [1]}
    times = {"detect_time_s": 1002.25, "repaired_time_s": 1002.5}
    return event(2.5, rank, "recovered", **{**fields, **times, **more})


def step(number: int, begin_s: float) -> dict[str, Any]:
    return {
        "name": "step", "number": number, "every": 1, "begin_s": 1000 + begin_s, "us": 100_000,
        "read": [[0, 10_000]], "exchange": [[50_000, 20_000]],
    }  # fmt: skip


def parts(**lines: list[dict[str, Any]]) -> Parts:
    return {int(rank[1:]): [StepSample.of(one) for one in found] for rank, found in lines.items()}


def tracks(content: dict[str, Any], process: str) -> dict[str, list[tuple[str, int, int]]]:
    return {
        track: [(mark["name"], mark["ts"], mark.get("dur", 0)) for mark in marks]
        for (of, track), marks in tracks_of(content).items()
        if of == process
    }


def test_a_rank_that_leaves_on_request_is_not_marked_as_lost() -> None:
    events = [
        *starts(0.0, "aa"),
        event(2.0, 1, "left", step=20, request="resize to 1"),
        recovered(0, left=[1], world_size_after=1),
        event(4.0, 0, "finished", reason=None),
    ]
    assert tracks(trace(events, {}), "rank 1 (a)") == {
        "life": [("working", 0, 2 * S), ("left", 2 * S, 0)]
    }


def test_a_death_a_spare_and_what_was_made_again() -> None:
    events = [
        *starts(0.0, "aab"),
        event(1.0, 2, "waits", step=0),
        event(2.0, 1, "fault", fault="kill:rank=1,step=20", kind="kill", step=20, at="compute",
              lethal=True),
        recovered(0, joined={"1": 2}),
        event(3.0, 0, "replayed", step=20, recomputed=8, seconds=0.25),
        event(4.0, 0, "finished", reason=None),
    ]  # fmt: skip
    content = trace(events, {})
    check_format(content)
    assert tracks(content, "rank 0 (a)") == {
        "life": [("working", 0, 4 * S)],
        "recovery": [("repair", 2 * S + S // 4, S // 4), ("replay", 2 * S + S // 2, S // 4)],
    }
    assert tracks(content, "rank 1 (a)") == {
        "life": [("working", 0, 2 * S), ("fault kill", 2 * S, 0), ("lost", 2 * S + S // 4, 0)]
    }
    assert tracks(content, "rank 2 (b)") == {
        "life": [
            ("working", 0, S), ("in reserve", S, S + S // 2),
            ("working", 2 * S + S // 2, S + S // 2),
            ("takes the place of rank 1", 2 * S + S // 2, 0),
        ]
    }  # fmt: skip
    assert tracks(content, "the run") == {"life": [("finished", 4 * S, 0)]}


def test_a_replay_that_a_second_death_ends_ends_there() -> None:
    events = [
        *starts(0.0, "aaa"),
        recovered(0),
        event(2.75, 0, "replayed", step=20, recomputed=8, seconds=9.0),
        {
            **recovered(0, lost=[2], detect_time_s=1002.625, repaired_time_s=1003.0),
            "time_s": 1003.0,
        },
    ]
    content = trace(events, {})
    check_format(content)
    assert tracks(content, "rank 0 (a)")["recovery"] == [
        ("repair", 2 * S + S // 4, S // 4),
        ("replay", 2 * S + S // 2, S // 8),
        ("repair", 2 * S + 5 * S // 8, 3 * S // 8),
    ]


def test_a_restart_goes_on_in_the_same_tracks() -> None:
    events = [
        *starts(0.0, "ab"),
        event(0.75, 0, "epoch", epoch=0, step=6),
        event(1.0, -1, "restart", number=1, step=7, reason="gone", ranks=1),
        *starts(2.0, "b"),
        event(3.0, 0, "failed", reason="no"),
    ]
    content = trace(events, parts(r0=[step(6, 0.5), step(6, 2.5)], r1=[step(6, 0.5)]))
    check_format(content)
    life = tracks(content, "rank 0 (b)")["life"]
    assert life == [("working", 0, 3 * S // 4), ("working", 2 * S, S)]
    steps = [one for one in tracks(content, "rank 0 (b)")["training"] if one[0] == "step"]
    assert steps == [("step", S // 2, S // 10), ("step", 2 * S + S // 2, S // 10)]
    (restart,) = (m for m in tracks_of(content)["the run", "life"] if m["name"] == "restart")
    assert restart["s"] == "g" and restart["args"]["reason"] == "gone"


def test_checkpoints_apoptosis_and_epochs() -> None:
    events = [
        *starts(0.0, "a"),
        event(2.0, 0, "checkpoint", tier="files", step=7, seconds=0.5, path="p", parts=1),
        event(3.0, 0, "epoch", epoch=0, step=8, loss=float("nan")),
        event(4.0, 0, "apoptosis", step=8, epoch=1, seconds=0.25, changes=[{"cost": float("inf")}],
              parameters=10, parameters_before=20),
    ]  # fmt: skip
    content = trace(events, {})
    check_format(json.loads(json.dumps(content, allow_nan=False)))
    found = tracks(content, "rank 0 (a)")
    assert found["checkpoints"] == [("checkpoint (files)", S + S // 2, S // 2)]
    assert found["apoptosis"] == [("apoptosis", 3 * S + 3 * S // 4, S // 4)]
    assert found["training"] == [("epoch", 3 * S, 0)]


def test_the_speed_and_the_ranks_are_counted() -> None:
    events = [*starts(0.0, "ab")] + [
        event(float(at), 0, "progress", samples=64 * at, world_size=2) for at in (1, 2, 4)
    ]
    content = trace(events, {})
    check_format(content)
    counts = [m for m in content["traceEvents"] if m["ph"] == "C"]
    assert [m["args"] for m in counts if m["name"] == "samples/s"] == [{"samples/s": 64.0}] * 2
    assert [m["ts"] for m in counts if m["name"] == "ranks"] == [S, 2 * S, 4 * S]


def test_it_stays_small_and_says_what_is_left_out() -> None:
    events = [
        *starts(0.0, "ab"),
        *(
            event(0.1 * n, 0, "checkpoint", tier="memory", step=n, seconds=0.01)
            for n in range(3000)
        ),
    ]
    lines = [step(number, 0.2 * number) for number in range(4096)]
    content = trace(events, parts(r0=lines, r1=lines))
    check_format(content)
    assert content["otherData"]["every"] == 8
    assert "each 8th step" in content["otherData"]["steps_shown"]
    assert content["otherData"]["left_out"] == {"checkpoint (memory)": 2000}
    assert sum(m["name"] == "step" for m in content["traceEvents"]) == 2 * 512
    assert len(content["traceEvents"]) < 10_000


def test_nothing_is_a_trace_too() -> None:
    check_format(trace([], {}))


def test_parts_are_joined_from_their_files_each_line_once(tmp_path: Path) -> None:
    lines = [step(0, 1.0), step(1, 1.5)]
    for rank in range(2):
        text = "".join(json.dumps(line) + "\n" for line in [*lines, lines[1]])
        (tmp_path / part_name(rank)).write_text(text + '{"name": "st')
    write_trace(tmp_path, starts(0.0, "ab"))
    found = tracks_of(read_trace(tmp_path / TRACE))
    for rank, host in enumerate("ab"):
        steps = [m for m in found[f"rank {rank} ({host})", "training"] if m["name"] == "step"]
        assert [mark["args"]["step"] for mark in steps] == [0, 1]
