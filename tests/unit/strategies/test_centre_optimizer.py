"""The optimizer of a centre: what pushes are to it, and where its slots go."""

from __future__ import annotations

import numpy as np
import pytest

from matex.strategies import CentreRule, DownpourRule
from matex.strategies.rules.centre import Push, WorkerMemory
from tests.adagrad import Adagrad

ADAGRAD = Adagrad(0.5)
WEIGHTS = np.array([1.0, -2.0, 3.0])
SLOTS = ADAGRAD.first_slots(WEIGHTS)


@pytest.fixture
def rule() -> DownpourRule:
    return DownpourRule(optimizer=ADAGRAD)


def test_pushes_are_a_gradient_to_the_centres_optimizer(rule: DownpourRule) -> None:
    """Pushes that came together make one update by their staleness; all get it with its slots."""
    centre = rule.first_centre(WEIGHTS)
    np.testing.assert_array_equal(centre, [*WEIGHTS, *SLOTS])
    pushes = [Push(np.array([4.0, 0, 0]), 0.25, 0), Push(np.array([0.0, 8, 0]), 0.25, 4)]
    answers = rule.serve(centre, pushes, 2)
    moved = np.array([2.0, 1.0, 0.0])
    wanted = np.concatenate(ADAGRAD.updated(WEIGHTS, SLOTS, -moved))
    assert len(answers) == 2
    for answer in answers:
        np.testing.assert_allclose(answer, wanted)
    assert answers[0][0] > WEIGHTS[0], "downhill is where the workers went"
    np.testing.assert_array_equal(centre, [*WEIGHTS, *SLOTS])


def test_it_makes_one_update_where_all_push_at_once(rule: DownpourRule) -> None:
    mean = np.array([0.5, 0.0, -1.0])
    after, centre = rule.meet(WEIGHTS + 9, mean, rule.first_centre(WEIGHTS), share=0.5)
    np.testing.assert_allclose(centre, np.concatenate(ADAGRAD.updated(WEIGHTS, SLOTS, -mean)))
    np.testing.assert_array_equal(after, centre[:3])


def test_slots_outlive_a_consensus_and_all_who_knew_the_centre_since(rule: DownpourRule) -> None:
    """A last update is made by what nobody had pushed before."""
    (*_, centre) = rule.serve(rule.first_centre(WEIGHTS), [Push(np.ones(3), 1.0, 0)], 1)
    moved = np.array([0.25, 0.0, 0.0])
    mean = centre[:3] + moved
    made = rule.consensus(WEIGHTS, mean, centre)
    wanted = np.concatenate(ADAGRAD.updated(centre[:3], centre[3:], -moved))
    np.testing.assert_allclose(made.weights, wanted[:3])
    following = rule.continued(made)
    np.testing.assert_allclose(following.first_centre(made.weights), wanted)
    estimate = following.fallback(WEIGHTS, WorkerMemory(made.weights))
    np.testing.assert_allclose(estimate, wanted)
    np.testing.assert_array_equal(rule.first_centre(WEIGHTS), [*WEIGHTS, *SLOTS])


def test_of_two_levels_the_upper_centre_has_it(rule: DownpourRule) -> None:
    def updates_made(level: CentreRule) -> int:
        state = level.first_centre(WEIGHTS)
        after = level.serve(state, [Push(np.ones(3), 1.0, 0)], 1)[-1]
        return int(after[-1]) if after.size > WEIGHTS.size else 0

    assert (updates_made(rule.within_nodes), updates_made(rule.between_nodes)) == (0, 1)


def test_a_momentum_starts_anew_after_a_consensus() -> None:
    rule = DownpourRule(momentum=0.5)
    made = rule.consensus(WEIGHTS, WEIGHTS, np.concatenate([WEIGHTS, np.ones(3)]))
    assert rule.continued(made) == rule
