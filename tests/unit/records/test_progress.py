"""The notes of a run's progress: their intervals and their words."""

from __future__ import annotations

import pytest

from matex.records.progress import ProgressThrottle, newest_told, own_timings
from matex.records.step_report import StepReport


def test_notes_become_rarer_and_hold_the_means_since_the_last() -> None:
    now = [0.0]
    progress = ProgressThrottle(clock=lambda: now[0])
    notes = []
    for number in range(40_000):  # of 25 ms: 1000 s
        now[0] += 0.025
        progress.step(
            StepReport(
                samples=8,
                planned=8,
                step_s=0.02,
                exchange_s=0.005,
                logs={"loss": 1 / (number + 1)},
            )
        )
        if progress.is_due():
            notes.append((number, progress.take()))
    assert 1500 < len(notes) < 4000
    assert all(4 <= note["steps"] <= 5 for _, note in notes[:3])
    assert notes[-1][1]["steps"] > 30
    for number, note in (notes[0], notes[-1]):
        assert abs(note["step_s"] - 0.02) < 1e-9
        assert abs(note["exchange_s"] - 0.005) < 1e-9
        assert note["loss"] == 1 / (number + 1)


def test_where_no_loss_is_known_there_is_none() -> None:
    progress = ProgressThrottle()
    progress.step(StepReport(samples=0, planned=0, step_s=0.1, exchange_s=0.1))
    assert progress.take()["loss"] is None


@pytest.mark.parametrize(("ranks", "apart_s"), [(1, 1.0), (10, 1.0), (200, 20.0)])
def test_timings_of_all_ranks_together_come_ten_times_a_second_at_most(
    ranks: int, apart_s: float
) -> None:
    now = [0.0]
    timings = own_timings(ranks, clock=lambda: now[0])
    timings.step(StepReport(samples=1, planned=1, step_s=0.1, exchange_s=0.1))
    now[0] = 0.99 * apart_s
    assert not timings.is_due()
    now[0] = apart_s
    assert timings.is_due()


def test_a_new_leader_goes_on_from_the_newest_step_told_in_this_start() -> None:
    told = [{"event": "progress", "step": 3}, {"event": "epoch", "step": 9}]
    assert newest_told([]) is None
    assert newest_told(told) == 3
    for again in ("restart", "resumed"):
        assert newest_told([*told, {"event": again, "step": 2}]) is None
        assert newest_told([*told, {"event": again, "step": 2}, *told]) == 3
