"""Events of several ranks in one file, and what the record of a fault says of them."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import signal
import sys
import threading
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from ci.patience import patience
from matex.records.events import Event, EventLog, read_events, write_json
from matex.records.fault_records import FIELDS, fault_records, restarts_in


def fault(time_s: float, rank: int, kind: str = "kill", **more: Any) -> Event:
    lethal = kind not in ("nan", "slow")
    fixed = {"event": "fault", "step": 7, "at": "compute", "lethal": lethal}
    return {"time_s": time_s, "rank": rank, "kind": kind, **fixed, **more}


def recovered(
    rank: int,
    lost: list[int],
    *,
    detect: float,
    repaired: float,
    generation: int = 1,
    before: int = 4,
) -> Event:
    return {
        "time_s": repaired, "rank": rank, "event": "recovered", "step": 7, "lost": lost,
        "generation": generation, "detect_time_s": detect, "repaired_time_s": repaired,
        "world_size_before": before, "world_size_after": before - len(lost),
    }  # fmt: skip


def first_step(time_s: float, rank: int, generation: int = 1) -> Event:
    return {
        "time_s": time_s, "rank": rank, "event": "first-step", "step": 7, "generation": generation
    }  # fmt: skip


def start(rank: int) -> Event:
    return {"time_s": 1.0, "rank": rank, "event": "start", "pid": 5, "host": "h", "world_size": 4}


def test_a_kill_is_timed_from_the_moment_it_was_set_off() -> None:
    events = [
        *map(start, range(4)),
        fault(10.0, 2),
        recovered(0, [2], detect=10.25, repaired=10.5),
        recovered(1, [2], detect=10.125, repaired=10.75),
        recovered(3, [2], detect=10.5, repaired=10.625),
        first_step(11.0, 0), first_step(12.0, 1), first_step(11.5, 3),
    ]  # fmt: skip
    (record,) = fault_records(events)
    assert record == {
        **dict.fromkeys(FIELDS),
        "kind": "kill", "rank": 2, "step": 7, "at": "compute", "time_s": 10.0,
        "overcome": "in-place",
        "detect_s": 0.125, "repair_s": 0.625, "to_next_step_s": 2.0,
        "world_size_before": 4, "world_size_after": 3,
    }  # fmt: skip


def replayed(rank: int, at_risk: dict[str, int], recomputed: int, generation: int = 1) -> Event:
    return {
        "time_s": 11.0, "rank": rank, "event": "replayed", "step": 7, "generation": generation,
        "at_risk": at_risk, "recomputed": recomputed, "seconds": 0.25 * (rank + 1),
        "samples_lost": 0, "samples_repeated": 0,
    }  # fmt: skip


def state(rank: int, digest: str, generation: int = 1) -> Event:
    return {
        "time_s": 11.5,
        "rank": rank,
        "event": "state",
        "hash": digest,
        "generation": generation,
    }


def test_what_was_at_risk_was_recomputed_by_the_survivors_together() -> None:
    events = [
        fault(10.0, 1), fault(10.0, 3),
        recovered(0, [1, 3], detect=10.0, repaired=10.5),
        recovered(2, [1, 3], detect=10.0, repaired=10.5),
        replayed(0, {"1": 32, "3": 16}, 30), replayed(2, {"1": 32, "3": 16}, 18),
        state(0, "ab"), state(2, "ab"),
    ]  # fmt: skip
    first, second = fault_records(events)
    assert (first["samples_at_risk"], second["samples_at_risk"]) == (32, 16)
    for record in (first, second):
        assert (record["samples_recomputed"], record["replay_s"]) == (48, 0.75)
        assert (record["samples_lost"], record["samples_repeated"]) == (0, 0)
        assert (record["state_hash"], record["replicas_equal"]) == ("ab", True)


def test_a_death_before_the_replay_was_done_is_in_the_same_one() -> None:
    events = [
        fault(10.0, 1), recovered(0, [1], detect=10.0, repaired=10.5),
        fault(10.75, 2), recovered(0, [2], detect=11.0, repaired=11.5, generation=2, before=3),
        replayed(0, {"1": 32, "2": 48}, 80, generation=2), state(0, "ab", generation=2),
    ]  # fmt: skip
    assert [r["samples_at_risk"] for r in fault_records(events)] == [32, 48]
    assert [r["state_hash"] for r in fault_records(events)] == ["ab", "ab"]


def test_replicas_that_differ_after_a_fault_are_told() -> None:
    events = [
        recovered(0, [1], detect=10.0, repaired=10.5, before=3), state(0, "ab"), state(2, "cd")
    ]  # fmt: skip
    (record,) = fault_records(events)
    assert (record["state_hash"], record["replicas_equal"]) == (None, False)


def test_a_death_from_outside_is_timed_from_its_detection() -> None:
    events = [
        recovered(0, [1], detect=5.0, repaired=5.5, before=2),
        first_step(6.0, 0),
    ]
    (record,) = fault_records(events)
    assert (record["kind"], record["rank"], record["step"], record["at"]) == ("death", 1, 7, None)
    assert (record["time_s"], record["detect_s"]) == (5.0, 0.0)
    assert (record["repair_s"], record["to_next_step_s"]) == (0.5, 1.0)
    assert (record["world_size_before"], record["world_size_after"]) == (2, 1)


def test_two_ranks_lost_in_one_recovery_have_a_record_each() -> None:
    events = [
        fault(10.0, 1), fault(10.5, 3, "segv"),
        recovered(0, [1, 3], detect=11.0, repaired=12.0),
        recovered(2, [1, 3], detect=11.0, repaired=12.5),
        first_step(13.0, 0), first_step(13.0, 2),
    ]  # fmt: skip
    first, second = fault_records(events)
    assert (first["rank"], first["kind"], first["to_next_step_s"]) == (1, "kill", 3.0)
    assert (second["rank"], second["kind"], second["to_next_step_s"]) == (3, "segv", 2.5)
    assert (first["detect_s"], second["detect_s"]) == (1.0, 0.5)
    assert {r["world_size_after"] for r in (first, second)} == {2}


def test_a_second_death_inside_the_recovery_was_not_detected_before_it_happened() -> None:
    events = [
        fault(10.0, 1),
        fault(11.5, 3, at="recovery"),
        recovered(0, [1, 3], detect=11.0, repaired=12.0),
        recovered(2, [1, 3], detect=11.0, repaired=12.0),
        first_step(13.0, 0), first_step(13.0, 2),
    ]  # fmt: skip
    first, second = fault_records(events)
    assert (first["rank"], first["detect_s"], first["repair_s"]) == (1, 1.0, 1.0)
    assert (second["rank"], second["detect_s"], second["repair_s"]) == (3, 0.0, 0.5)
    assert (second["at"], second["to_next_step_s"]) == ("recovery", 1.5)


def test_each_recovery_is_followed_by_its_own_step() -> None:
    events = [
        fault(10.0, 1), recovered(0, [1], detect=10.0, repaired=10.5), first_step(11.0, 0),
        fault(20.0, 2, step=9),
        recovered(0, [2], detect=20.0, repaired=20.5, generation=2, before=3),
        first_step(22.0, 0, generation=2),
    ]  # fmt: skip
    assert [(r["rank"], r["step"], r["to_next_step_s"]) for r in fault_records(events)] == [
        (1, 7, 1.0), (2, 9, 2.0),
    ]  # fmt: skip


def test_a_recovery_before_the_step_was_done_waits_for_the_next_recovery_s_step() -> None:
    events = [
        fault(10.0, 1), recovered(0, [1], detect=10.0, repaired=10.5),
        fault(10.75, 2), recovered(0, [2], detect=11.0, repaired=11.5, generation=2, before=3),
        first_step(12.0, 0, generation=2),
    ]  # fmt: skip
    assert [r["to_next_step_s"] for r in fault_records(events)] == [2.0, 1.25]


def test_without_a_next_step_there_is_no_time_to_it() -> None:
    events = [fault(10.0, 1), recovered(0, [1], detect=10.0, repaired=10.5)]
    (record,) = fault_records(events)
    assert record["to_next_step_s"] is None
    assert record["repair_s"] == 0.5


@pytest.mark.parametrize("kind", ["nan", "slow", "kill"])
def test_a_fault_that_took_nobody_is_recorded_without_times(kind: str) -> None:
    (record,) = fault_records([fault(10.0, 1, kind)])
    assert (record["kind"], record["rank"], record["time_s"]) == (kind, 1, 10.0)
    for name in ("detect_s", "repair_s", "to_next_step_s", "world_size_before"):
        assert record[name] is None


def test_a_nan_is_not_the_cause_of_a_death() -> None:
    events = [
        fault(9.0, 1, "kill"), fault(9.5, 1, "nan"), recovered(0, [1], detect=10.0, repaired=10.5)
    ]  # fmt: skip
    assert [(r["kind"], r["detect_s"]) for r in fault_records(events)] == [
        ("kill", 1.0), ("nan", None),
    ]  # fmt: skip


def test_records_have_one_shape_and_come_in_order_of_time() -> None:
    events = [
        fault(30.0, 0, "slow"), fault(10.0, 1), fault(20.0, 2, "nan"),
        recovered(0, [1], detect=10.5, repaired=11.0),
    ]  # fmt: skip
    records = fault_records(iter(events))
    assert [r["time_s"] for r in records] == [10.0, 20.0, 30.0]
    assert len({frozenset(r) for r in records}) == 1
    assert fault_records([]) == []


# ---------------------------------------------------------------- files


def test_a_log_without_a_file_remembers_its_own() -> None:
    log = EventLog(None, 3)
    log.write("start", pid=1)
    (event,) = log.all()
    assert (event["rank"], event["event"], event["pid"]) == (3, "start", 1)


def test_a_log_keeps_nothing_of_what_it_has_written(tmp_path: Path) -> None:
    logs = {"progress": EventLog(None, 0), "epoch": EventLog(tmp_path / "events.jsonl", 0)}
    for event, log in logs.items():
        log.write(event, step=0)
        tracemalloc.start()
        try:
            for step in range(2000):
                log.write(event, step=step, loss=step / 7)
            assert tracemalloc.get_traced_memory()[0] < 50e3, event
        finally:
            tracemalloc.stop()


def test_a_file_that_is_gone_is_made_again_with_all_that_a_rank_wrote(tmp_path: Path) -> None:
    path = tmp_path / "report" / "events.jsonl"
    path.parent.mkdir()
    logs = [EventLog(path, rank) for rank in range(2)]
    for number in range(3):
        for log in logs:
            log.write("many", number=number)
    shutil.rmtree(path.parent)
    logs[1].write("last", number=3)
    found = [(event["rank"], event["number"]) for event in read_events(path)]
    assert found == [(1, 0), (1, 1), (1, 2), (1, 3)]


def test_events_of_all_ranks_are_read_in_order_of_time(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    logs = [EventLog(path, rank) for rank in range(3)]
    for log in (logs[2], logs[0], logs[1]):
        log.write("here", text="ä\n")
    read = logs[0].all()
    assert [event["rank"] for event in read] == [2, 0, 1]
    assert {event["text"] for event in read} == {"ä\n"}
    assert len(path.read_text().splitlines()) == 3
    assert not path.stat().st_mode & 0o111


def test_lines_that_are_no_whole_events_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    logs = [EventLog(path, rank) for rank in (1, 0)]
    for log in logs:
        log.write("here")
    with path.open("a") as file:
        file.write('{"rank": 2}\n{"time_s": "x", "rank": 2, "event": "here"}\n[]\n{"time_s": 3')
    assert [event["rank"] for event in read_events(path)] == [1, 0]
    path.write_bytes(b"{\xff\n" + path.read_bytes())
    assert [event["rank"] for event in read_events(path)] == [1, 0]
    path.write_text("")
    assert read_events(path) == []
    digits = "1" * (sys.get_int_max_str_digits() + 1)
    path.write_text(f'{{"time_s": {digits}, "rank": 0, "event": "x"}}\n' + "[" * 100_000 + "\n")
    assert read_events(path) == []


def test_a_line_after_one_that_was_cut_short_is_one_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text('{"time_s": 3')  # of a host that lost power over it, or of a full disk
    EventLog(path, 0).write("here")
    assert [event["event"] for event in read_events(path)] == ["here"]


LINES = 300


def write_many(path: Path, rank: int, ready: Any) -> None:
    log = EventLog(path, rank)
    ready.wait(patience(30))
    for number in range(LINES):
        log.write("many", number=number, padding="x" * (37 * number % 4000))


def test_lines_of_several_processes_do_not_mix(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    context = multiprocessing.get_context("fork")
    ready = context.Barrier(4)
    writers = [context.Process(target=write_many, args=(path, rank, ready)) for rank in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(patience(60))
        assert writer.exitcode == 0
    seen: dict[int, list[int]] = {rank: [] for rank in range(4)}
    for line in path.read_text().splitlines():
        event = json.loads(line)
        seen[event["rank"]].append(event["number"])
        assert len(event["padding"]) == 37 * event["number"] % 4000
    assert seen == {rank: list(range(LINES)) for rank in range(4)}


def test_threads_write_each_event_once(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    log = EventLog(path, 0)

    def write(name: str) -> None:
        for number in range(LINES):
            log.write(name, number=number)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=write, args=(name,)) for name in "abc"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    found = sorted((event["event"], event["number"]) for event in read_events(path))
    assert found == [(name, number) for name in "abc" for number in range(LINES)]


def test_a_signal_s_handler_may_write_in_the_middle_of_a_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "events.jsonl"
    log = EventLog(path, 0)
    write = os.write

    def interrupted(file: int, content: bytes) -> int:
        written = write(file, content)
        if b"outer" in content:
            os.kill(os.getpid(), signal.SIGUSR1)
        return written

    monkeypatch.setattr(os, "write", interrupted)
    before = signal.signal(signal.SIGUSR1, lambda number, frame: log.write("inner"))
    try:
        log.write("outer")
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert [event["event"] for event in read_events(path)] == ["outer", "inner"]


def test_a_thread_that_hangs_at_the_disk_holds_up_no_other_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("matex.records.events._HANGS_S", 0.05)
    path = tmp_path / "events.jsonl"
    log, write = EventLog(path, 0), os.write
    hangs, goes_on = threading.Event(), threading.Event()

    def hung(file: int, content: bytes) -> int:
        hangs.set()
        goes_on.wait(patience(60))
        return write(file, content)

    monkeypatch.setattr(os, "write", hung)
    thread = threading.Thread(target=log.write, args=("first",))
    thread.start()
    hangs.wait(patience(60))
    log.write("second")
    assert [event["event"] for event in log.all()] == ["first", "second"]
    goes_on.set()
    thread.join()
    assert [event["event"] for event in read_events(path)] == ["first", "second"]


def test_json_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "summary.json"
    write_json(path, {"a": 1})
    with pytest.raises(TypeError):
        write_json(path, {"big": "x" * 100_000, "bad": object()})
    assert json.loads(path.read_text()) == {"a": 1}
    write_json(path, {"a": [1, None]})
    assert json.loads(path.read_text()) == {"a": [1, None]}
    assert path.read_text().endswith("\n")


def restart(time_s: float, *, step: int = 7, ranks: int = 4) -> Event:
    return {
        "time_s": time_s, "rank": -1, "event": "restart", "step": step, "ranks": ranks,
        "reason": "all ranks died",
    }  # fmt: skip


def test_a_restart_is_told_apart_from_a_recovery_in_place() -> None:
    events = [
        start(0),
        recovered(0, [3], detect=5.0, repaired=5.5), first_step(6.0, 0),
        fault(10.0, 2),
        restart(12.0, ranks=2),
        start(0), first_step(20.0, 0, generation=0), first_step(21.0, 1, generation=0),
        recovered(0, [1], detect=30.0, repaired=30.5, before=2), first_step(31.0, 0),
        restart(40.0, step=9, ranks=1),
        start(0),
    ]  # fmt: skip
    records = fault_records(events)
    told = [(r["kind"], r["rank"], r["overcome"], r["to_next_step_s"]) for r in records]
    assert told == [
        ("death", 3, "in-place", 1.0),
        ("kill", 2, "restart", 11.0),  # the fault that took all of them, once
        ("death", 1, "in-place", 1.0),  # of the second start: its generations begin anew
        ("loss", None, "restart", None),
    ]
    assert (records[1]["detect_s"], records[1]["world_size_after"]) == (2.0, 2)
    assert (records[3]["step"], records[3]["detect_s"]) == (9, 0.0)
    assert len(restarts_in(events)) == 2
