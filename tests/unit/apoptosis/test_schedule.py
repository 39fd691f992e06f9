"""The schedule of events, and the changes of the threshold by the held-out loss."""

from __future__ import annotations

import pytest

from matex.apoptosis.schedule import LESS, MODES, MORE, EventSchedule, Thresholds, held_out_rows


def test_the_threshold_follows_the_held_out_loss_for_each_group_by_itself() -> None:
    start = Thresholds(MODES["adaptive"])
    up = start.after("a", part=1.0, kept=True)
    assert (up.tau("a"), up.tau("b")) == (pytest.approx(0.015), 0.01)
    down = up.after("b", part=1.0, kept=False).after("b", part=1.0, kept=False)
    assert (down.tau("a"), down.tau("b")) == (pytest.approx(0.015), pytest.approx(0.01 / 9))
    assert start.after("a", part=LESS, kept=True).tau("a") == pytest.approx(0.01 / 3)
    assert start.after("a", part=LESS, kept=False).tau("a") == pytest.approx(0.01 / 9)
    assert start.after("a", part=MORE, kept=True).tau("a") == pytest.approx(0.045)
    for _ in range(20):
        up = up.after("a", part=1.0, kept=True)
    assert up.tau("a") == 0.05
    assert start.taus == {}


@pytest.mark.parametrize("mode", sorted(set(MODES) - {"adaptive"}))
def test_other_modes_do_not_adapt(mode: str) -> None:
    start = Thresholds(MODES[mode])
    assert start.after("a", part=1.0, kept=False) == start


LIGHT, HEAVY = 1e5, 1e7


def held(schedule: EventSchedule, gone: list[float], flops: float) -> list[int]:
    """The epochs of events, of which these parts of the network go, and later on a tenth."""
    epochs: list[int] = []
    for epoch in range(1, 25):
        if schedule.is_due(epoch):
            part = gone[len(epochs)] if len(epochs) < len(gone) else 0.1
            epochs.append(epoch)
            schedule = schedule.after(epoch, gone=part, flops=flops)
    return epochs


def test_events_that_bring_much_follow_each_other_and_others_come_every_second_epoch() -> None:
    schedule = EventSchedule(first=2, last=16)
    assert held(schedule, [0.7, 0.5, 0.3], HEAVY) == [2, 3, 4, 5, 7, 9, 11, 13, 15]
    assert held(schedule, [0.1, 0.0, 0.5, 0.5], HEAVY) == [2, 4, 6, 7, 8, 10, 12, 14, 16]


def test_what_brings_little_is_the_last_where_a_smaller_network_is_no_faster() -> None:
    schedule = EventSchedule(first=2, last=16)
    assert held(schedule, [0.7, 0.5, 0.3], LIGHT) == [2, 3, 4, 5]
    assert held(schedule, [], LIGHT) == [2]


def test_events_come_as_often_as_was_asked_for() -> None:
    for flops in (LIGHT, HEAVY):
        schedule = EventSchedule(first=2, last=20, every=6)
        assert held(schedule, [0.7], flops) == [2, 8, 14, 20]
        assert not schedule.after(8, gone=0.0, flops=flops).is_over


def test_a_resumed_fit_keeps_to_the_last_event_and_one_that_starts_over_does_not() -> None:
    over = EventSchedule(first=2, last=16).after(5, gone=0.0, flops=LIGHT)
    assert over.is_over
    for epoch in (5, 9, 16):
        assert not any(over.from_epoch(epoch).is_due(later) for later in range(epoch, 20))
    assert over.from_epoch(0).is_due(2)


def test_a_resumed_fit_waits_and_one_that_starts_over_does_not() -> None:
    waiting = EventSchedule(first=2, last=20, wait=4, due=12)
    assert waiting.from_epoch(9) == waiting
    assert waiting.from_epoch(0).is_due(2)


def test_judging_costs_a_part_of_an_epoch_and_is_never_blind() -> None:
    narrow, wide = [10] * 9, [1000] * 3

    def rows(training: int, widths: list[int], scored: int = 2048) -> int:
        return held_out_rows(training, scored=scored, widths=widths, flops=4e6, limit=4096)

    assert rows(10**6, wide) == 4096
    assert rows(50_000, narrow) == 2329
    assert rows(80_000, wide) == 3908  # deciding takes as long as 22,500 forward passes
    assert rows(40_000, wide) == 512
    assert rows(600, narrow, scored=600) == 512
