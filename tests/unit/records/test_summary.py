"""summary.json in the words that other programs rely on."""

from __future__ import annotations

import json
from collections import Counter, deque
from pathlib import Path
from typing import Any

import pytest

from matex.records.event_counts import event_counts
from matex.records.summary import SUMMARY, Totals, faults_csv, summarize, unwritten

FIELDS = {
    "status", "reason", "resumable", "strategy", "messages_per_step", "bytes_per_step",
    "world_size_start", "world_size_end", "restarts", "epochs",
    "steps", "samples_expected", "samples_used", "samples_repeated", "samples_lost", "weights_hash",
    "parameters_start", "parameters_end", "metrics", "wall_s", "step_s", "exchange_s",
    "checkpoints", "staleness", "faults", "spares", "spares_used", "spares_lost",
    "rows", "ranks_lost", "ranks_left", "starts", "numbers", "respawned",
}  # fmt: skip

EVENTS = [
    {"time_s": 1.0, "rank": 1, "event": "fault", "kind": "nan", "step": 3, "at": "compute",
     "lethal": False},
]  # fmt: skip


def summary(totals: Totals, **more: object) -> dict:
    given = {"status": "finished", "reason": None, "world_size_end": 3, "wall_s": 9.5}
    return summarize(totals, EVENTS, **{"weights_hash": {"0": "ab"}, **given, **more})  # type: ignore[arg-type]


def test_the_fields_are_those_of_the_design() -> None:
    one = summary(
        Totals(
            world_size_start=4, epochs=2, steps=20, samples_expected=640, samples_used=640,
            parameters_start=50, parameters_end=40, metrics={"loss": 0.5},
            own_steps=10, messages=10, bytes=500, staleness=Counter({3: 2, 0: 5}),
            step_s=deque([0.3, 0.1, 0.2]), exchange_s=deque([0.01, 0.03]),
        )
    )  # fmt: skip
    assert set(one) == FIELDS
    assert (one["status"], one["reason"], one["restarts"]) == ("finished", None, 0)
    assert one["starts"] == 1
    assert (one["world_size_start"], one["world_size_end"]) == (4, 3)
    assert (one["epochs"], one["steps"], one["wall_s"]) == (2, 20, 9.5)
    assert (one["parameters_start"], one["parameters_end"]) == (50, 40)
    assert (one["metrics"], one["weights_hash"]) == ({"loss": 0.5}, {"0": "ab"})
    assert (one["step_s"], one["exchange_s"]) == (0.2, 0.02)
    assert (one["strategy"], one["messages_per_step"], one["bytes_per_step"]) == ("sync", 1, 50)
    assert one["staleness"] == {"0": 5, "3": 2}
    assert [(record["kind"], record["rank"]) for record in one["faults"]] == [("nan", 1)]
    assert json.loads(json.dumps(one)) == one


def test_spares_are_told_beside_the_ranks_that_work() -> None:
    recovered = {
        **{"event": "recovered", "generation": 2, "lost": [1, 0], "step": 3},
        **{"detect_time_s": 2.0, "repaired_time_s": 2.5, "joined": {"1": 3}},
        **{"world_size_before": 3, "world_size_after": 2},
    }
    later = {"event": "joined", "generation": 3, "joined": {"0": 4}, "world_size_after": 3}
    events = [
        {"time_s": 1.0, "rank": 2, "event": "spare-lost", "lost": [5]},
        *({"time_s": 2.5, "rank": rank, **recovered} for rank in (0, 2)),
        {"time_s": 2.6, "rank": 2, **later},
    ]
    given = {"status": "finished", "reason": None, "world_size_end": 3, "wall_s": 9.5}
    one = summarize(Totals(world_size_start=3, spares=3), events, **given, weights_hash={})  # type: ignore[arg-type]
    assert (one["spares"], one["spares_used"], one["spares_lost"]) == (3, 2, 1)
    at_once, afterwards = one["faults"]
    assert (at_once["rank"], at_once["replaced_by"], at_once["world_size_after"]) == (1, 3, 3)
    assert (afterwards["rank"], afterwards["replaced_by"]) == (0, 4)


def test_a_rank_that_leaves_on_request_is_no_loss() -> None:
    left = {
        **{"event": "recovered", "generation": 1, "lost": [1, 2], "left": [1], "step": 3},
        **{"detect_time_s": 2.0, "repaired_time_s": 2.1, "joined": {}},
        **{"world_size_before": 3, "world_size_after": 1},
    }
    resize = {"event": "resize", "step": 3, "number": 7, "request": "resize to 2", "host": None}
    events = [
        {"time_s": 1.0, "rank": 0, **resize, "leaving": [], "world_size": 0, "refused": "not yet"},
        {"time_s": 1.9, "rank": 0, **resize, "leaving": [1], "world_size": 2, "refused": None},
        {"time_s": 2.0, "rank": 1, "event": "left", "step": 3, "request": "resize to 2"},
        {"time_s": 2.1, "rank": 0, **left},
    ]
    given = {"status": "finished", "reason": None, "world_size_end": 1, "wall_s": 9.5}
    one = summarize(Totals(world_size_start=3), events, **given, weights_hash={})  # type: ignore[arg-type]
    assert one["ranks_left"] == [{"rank": 1, "step": 3, "request": "resize to 2"}]
    assert [(record["rank"], record["cause"]) for record in one["ranks_lost"]] == [(2, "signal")]
    assert [record["rank"] for record in one["faults"]] == [2]


def test_a_process_that_was_started_in_a_place_is_no_spare() -> None:
    lost = {
        **{"event": "recovered", "generation": 1, "lost": [1], "step": 3, "joined": {}},
        **{"detect_time_s": 2.0, "repaired_time_s": 2.1},
        **{"world_size_before": 2, "world_size_after": 1},
    }
    events = [
        {"time_s": 2.1, "rank": 0, **lost},
        {"time_s": 2.2, "rank": 0, "event": "respawn", "newcomer": 2, "fit": 0},
        {"time_s": 5.0, "rank": 0, "event": "joined", "generation": 3, "joined": {"1": 2}},
        {"time_s": 5.1, "rank": 0, "event": "took-over", "ranks": [2], "pause_s": 0.25},
    ]
    given = {"status": "finished", "reason": None, "world_size_end": 2, "wall_s": 9.5}
    one = summarize(Totals(world_size_start=2), events, **given, weights_hash={})  # type: ignore[arg-type]
    assert (one["respawned"], one["spares_used"]) == (1, 0)
    (fault,) = one["faults"]
    assert (fault["replaced_by"], fault["respawn_s"], fault["pause_s"]) == (2, 3.0, 0.25)
    assert fault["world_size_after"] == 2


def test_where_rows_came_from_is_told_of_all_ranks_and_of_each_epoch_once() -> None:
    assert summary(Totals(world_size_start=1))["rows"] is None
    epoch, again = {"time_s": 1.0, "event": "epoch", "step": 8}, {"step": 16}
    events = [
        {**epoch, "rank": 0, "rows": {"read": 90, "came": 3, "held": 30}},
        {**epoch, **again, "rank": 0, "rows": {"read": 80, "came": 0, "held": 30}},
        {"time_s": 1.5, "rank": 0, "event": "restart", "step": 18, "ranks": 2},
        {**epoch, **again, "rank": 0, "rows": {"read": 10, "came": 7, "held": 30}},
        {**epoch, **again, "rank": 1, "rows": {"read": 4, "came": 20, "held": 24}},
        {**epoch, "step": 24, "rank": 0},
    ]
    given = {"status": "finished", "reason": None, "world_size_end": 2, "wall_s": 9.5}
    one = summarize(Totals(world_size_start=2), events, **given, weights_hash={})  # type: ignore[arg-type]
    assert one["rows"] == {"read": 104, "came": 30}


def test_starts_and_seconds_are_those_of_the_whole_job() -> None:
    events = [
        {"time_s": 10.0, "rank": 1, "event": "start", "world_size": 3},
        {"time_s": 14.0, "rank": 0, "event": "epoch", "step": 8},
        {"time_s": 15.0, "rank": -1, "event": "restart", "step": 9, "ranks": 2, "reason": "lost"},
        {"time_s": 25.0, "rank": 0, "event": "start", "world_size": 2},
        {"time_s": 26.5, "rank": 0, "event": "stopped", "reason": "told"},
        {"time_s": 900.0, "rank": -1, "event": "continued"},
        {"time_s": 901.0, "rank": 0, "event": "start", "world_size": 2},
    ]
    given = {"status": "finished", "reason": None, "world_size_end": 2, "wall_s": 9.5}
    one = summarize(Totals(world_size_start=2), events, **given, weights_hash={})  # type: ignore[arg-type]
    assert (one["starts"], one["restarts"]) == (3, 1)
    assert one["wall_s"] == 4.0 + 1.5 + 9.5
    assert (one["world_size_start"], one["world_size_end"]) == (3, 2)


@pytest.mark.parametrize(
    ("expected", "used", "lost", "repeated"),
    [(100, 100, 0, 0), (100, 90, 10, 0), (100, 103, 0, 3), (0, 0, 0, 0)],
)
def test_lost_and_repeated_samples(expected: int, used: int, lost: int, repeated: int) -> None:
    one = summary(Totals(world_size_start=1, samples_expected=expected, samples_used=used))
    assert (one["samples_lost"], one["samples_repeated"]) == (lost, repeated)


@pytest.mark.parametrize(
    ("policy", "planned", "used", "left_out"),
    [
        ("skip", 100, 90, True),
        ("skip", 100, 100, False),  # the start in which some were left out was lost
        ("skip", 0, 0, True),  # the counts are not known
        ("recompute", 100, 100, False),
    ],
)
def test_samples_that_were_left_out_make_other_numbers(
    policy: str, planned: int, used: int, left_out: bool
) -> None:
    events = [
        {"time_s": 1.0, "rank": 0, "event": "fit", "fit": 0, "step": 0, "but_for": []},
        {"time_s": 2.0, "rank": 0, "event": "nonfinite", "step": 3, "ranks": [1], "policy": policy},
    ]
    totals = Totals(world_size_start=2, samples_planned=planned, samples_used=used)
    given = {"status": "finished", "reason": None, "world_size_end": 2, "wall_s": 9.5}
    one = summarize(totals, events, **given, weights_hash={})  # type: ignore[arg-type]
    but_for = " but for: samples left out (--nonfinite skip)" if left_out else ""
    assert one["numbers"] == f"of plain Keras{but_for}"


def test_without_a_step_there_is_no_median() -> None:
    one = summary(Totals(world_size_start=1))
    assert (one["step_s"], one["exchange_s"]) == (None, None)
    assert (one["messages_per_step"], one["bytes_per_step"]) == (None, None)


def test_a_run_that_could_not_say_so_itself_failed(tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    saved.mkdir()
    events = [
        *EVENTS,
        *({"time_s": 3.0, "rank": rank, "event": "epoch", "step": 2} for rank in (0, 1)),
        {"time_s": 3.5, "rank": 0, "event": "checkpoint", "tier": "files", "step": 3,
         "seconds": 0.1, "busy_s": 0.1, "path": str(saved)},
    ]  # fmt: skip
    assert unwritten(tmp_path, events, ranks=4, step=7, reason="all ranks died") == "failed"
    one = json.loads((tmp_path / SUMMARY).read_text())
    assert (one["steps"], one["epochs"], one["resumable"], one["wall_s"]) == (7, 1, True, 2.5)
    saved.rmdir()
    assert unwritten(tmp_path, events, ranks=4, step=-1, reason="all ranks died") == "failed"
    one = json.loads((tmp_path / SUMMARY).read_text())
    assert (one["steps"], one["resumable"]) == (0, False)
    assert set(one) == FIELDS
    assert (one["status"], one["reason"]) == ("failed", "all ranks died")
    assert (one["world_size_start"], one["world_size_end"], one["weights_hash"]) == (4, 0, {})
    assert len(one["faults"]) == 1
    assert [path.name for path in tmp_path.iterdir()] == [SUMMARY]


def test_it_has_what_the_events_tell(tmp_path: Path) -> None:
    fit = {"event": "fit", "fit": 0, "strategy": "easgd", "parameters": 50}
    events = [
        fit,
        {"event": "epoch", "step": 2, "loss": 0.5, "metric_step": 7},
        {"event": "progress", "samples": 80},
        {"event": "apoptosis", "parameters": 40},
        {**fit, "parameters": 40},  # after a restart
        {"event": "progress", "samples": 96},
        {**fit, "fit": 1, "parameters": 40},
        {"event": "apoptosis", "parameters": 30},
        {"event": "fit", "fit": 2, "whole": "reason", "but_for": []},
    ]
    told = [{"time_s": float(n), "rank": 0, **event} for n, event in enumerate(events)]
    unwritten(tmp_path, told, ranks=4, step=4, reason="all ranks died")
    one = json.loads((tmp_path / SUMMARY).read_text())
    assert (one["samples_expected"], one["samples_used"], one["samples_lost"]) == (96, 96, 0)
    assert (one["metrics"], one["strategy"]) == ({"loss": 0.5, "step": 7}, "easgd")
    assert (one["parameters_start"], one["parameters_end"]) == (50, 30)


@pytest.mark.parametrize(
    ("told", "sizes"),
    [
        ([(0, 50), (1, 30)], (30, 30)),  # of two models
        ([(0, 50), (1, 30), (1, 20)], (30, 20)),  # the second was shrunk, and told of anew
        ([(0, 50), (1, 30), (2, 30)], (30, 30)),
        ([(0, 50), (0, 40), (0, 50)], (50, 50)),  # started again from before the shrinking
        ([(0, 50), (1, 30), (0, 50)], (50, 50)),  # started again from the beginning
    ],
)
def test_the_parameters_are_those_of_the_last_model(
    told: list[tuple[int, int]], sizes: tuple[int, int]
) -> None:
    events = [
        {"time_s": 0.0, "rank": 0, "event": "fit", "fit": fit, "strategy": "sync", "parameters": n}
        for fit, n in told
    ]
    counts = event_counts(events)
    assert (counts["parameters_start"], counts["parameters_end"]) == sizes


def test_the_faults_of_a_summary_as_csv() -> None:
    (record,) = summary(Totals(world_size_start=4))["faults"]
    header, line = faults_csv([record]).splitlines()
    named = dict(zip(header.split(","), line.split(","), strict=True))
    assert (named["kind"], named["rank"], named["step"], named["detect_s"]) == ("nan", "1", "3", "")
    assert faults_csv([]) == header + "\n"


@pytest.mark.parametrize(
    ("before", "status"),
    [([], "stopped"), (["start"], "failed"), (["start", "checkpoint"], "stopped")],
)
def test_ranks_that_were_told_before_they_met_lose_nothing_but_what_was_not_saved(
    tmp_path: Path, before: list[str], status: str
) -> None:
    """The ranks of an earlier start had met, or none; those of the last one had not."""
    known: dict[str, dict[str, Any]] = {
        "start": {"pid": 1, "host": "a", "world_size": 1},
        "checkpoint": {"tier": "files", "step": 3, "path": str(tmp_path)},
    }
    events = [{"time_s": 1.0, "rank": 0, "event": name, **known[name]} for name in before]
    if before:
        again = {"number": 1, "step": 3, "reason": "lost", "ranks": 1, "hosts": None}
        events.append({"time_s": 2.0, "rank": -1, "event": "restart", **again})
    events.append({"time_s": 3.0, "rank": -1, "event": "told", "signal": "SIGTERM"})
    assert unwritten(tmp_path, events, ranks=1, step=3, reason="told") == status
    one = json.loads((tmp_path / SUMMARY).read_text())
    assert (one["status"], one["resumable"]) == (status, status == "stopped")


@pytest.mark.parametrize(
    ("at", "again", "status"),
    [(3.9, [], "failed"), (4.1, [], "stopped"), (4.2, ["continued"], "failed")],
)
def test_ranks_that_saved_after_they_were_told_were_stopped(
    tmp_path: Path, at: float, again: list[str], status: str
) -> None:
    (tmp_path / "saved").touch()
    begun = {"event": "start", "pid": 1, "host": "a", "world_size": 4}
    events = [
        {"time_s": 0.5, "rank": 0, **begun},
        *EVENTS,
        {"time_s": 4.0, "rank": -1, "event": "told", "signal": "SIGTERM"},
        *({"time_s": 4.1, "rank": -1, "event": name} for name in again),
        {"time_s": at, "rank": 0, "event": "checkpoint", "tier": "files", "step": 3,
         "seconds": 0.1, "busy_s": 0.1, "path": str(tmp_path / "saved")},
    ]  # fmt: skip
    assert unwritten(tmp_path, events, ranks=4, step=3, reason="told") == status
    one = json.loads((tmp_path / SUMMARY).read_text())
    assert (one["status"], one["resumable"]) == (status, True)
