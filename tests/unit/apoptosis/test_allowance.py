"""The rise of the loss that an event may cause; rises of several events do not add up."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matex.apoptosis.allowance import LossProgress, allowed_loss

losses = st.floats(0.01, 10.0)


def test_the_allowed_rise_is_between_the_scales_of_the_trained_and_the_untrained_network() -> None:
    assert allowed_loss(0.002, 2.0, 0.005) == pytest.approx(0.002 + 0.005 * 0.2)
    assert allowed_loss(2.0, 2.0, 0.005) == pytest.approx(2.01)
    assert allowed_loss(4.0, 2.0, 0.005) == pytest.approx(4.02)
    assert allowed_loss(0.0, 2.0, 0.005) == 0.0


def test_a_part_of_what_an_epoch_gains_may_be_spent_where_that_is_more() -> None:
    assert allowed_loss(1.5, 2.0, 0.005, gained=0.024) == pytest.approx(1.512)
    assert allowed_loss(1.5, 2.0, 0.005, gained=0.01) == pytest.approx(1.50909, abs=1e-5)


def test_a_network_that_learns_fast_does_not_lose_what_it_will_need() -> None:
    assert allowed_loss(1.5, 2.0, 0.005, gained=0.6) == pytest.approx(1.515)
    assert allowed_loss(0.002, 2.0, 0.005, gained=0.6) == pytest.approx(0.003)


@pytest.mark.parametrize(
    ("held_out", "training", "gained"),
    [
        (1.7, 1.6, 0.3),
        (1.2, 1.6, 0.4),  # the held-out loss jumps: what training makes of it
        (2.1, 1.6, 0.0),  # the network overfits
        (1.7, 2.1, 0.0),  # training has not got back what an event cost
        (1.7, None, 0.3),
    ],
)
def test_what_an_epoch_gains(held_out: float, training: float | None, gained: float) -> None:
    before = LossProgress(at_start=2.3).looked(4, 2.0, 2.0, rows=512)
    assert before.gained(5, held_out, training) == pytest.approx(gained)
    assert before.gained(6, held_out, training) == 0.0, "of two epochs nothing is known"
    assert LossProgress(at_start=2.3).gained(1, held_out, training) == 0.0


def test_an_event_waits_until_training_has_got_back_what_the_last_one_cost() -> None:
    spent = LossProgress(at_start=2.0).spent(1.2, 1.0)
    assert not spent.is_even(1.0, 1.02, 0.005)
    assert spent.is_even(1.5, 1.007, 0.005)
    assert not spent.is_even(1.5, float("nan"), 0.005)
    assert LossProgress(at_start=2.0).spent(1.2, None).is_even(1.2, None, 0.005)
    assert LossProgress().is_even(9.0, 9.0, 0.005)


def test_a_fit_that_starts_over_owes_nothing_and_one_that_resumes_does() -> None:
    spent = LossProgress(at_start=2.0).looked(4, 1.0, 1.0, rows=512).spent(1.2, 1.0)
    noted = LossProgress(**json.loads(json.dumps(spent.notes())))
    assert noted == noted.from_epoch(4) == spent
    assert noted.from_epoch(0) == LossProgress(at_start=2.0, held_out=1.0, rows=512, training=1.0)


@given(st.lists(st.tuples(losses, losses, st.floats(0.0, 1.0)), max_size=20))
def test_events_never_spend_more_than_half_of_what_training_gained(
    course: list[tuple[float, float, float]],
) -> None:
    """Whatever the losses do, and however much of what is allowed an event takes."""
    progress, spent, earned = LossProgress(at_start=0.0), 0.0, 0.0
    for epoch, (held_out, training, share) in enumerate(course, 1):
        gained = progress.gained(epoch, held_out, training)
        if progress.training is not None:
            earned += max(0.0, progress.training - training)
        rise = share * (allowed_loss(held_out, 0.0, 0.005, gained) - held_out)
        assert rise <= 0.01 * held_out + 1e-9
        rise -= min(rise, 0.005 * held_out)  # which may always be spent
        spent += rise
        progress = progress.looked(epoch, held_out + rise, training, rows=512)
        assert spent <= 0.5 * earned + 1e-9
