"""Gossip: who meets whom in any world, and that the mean stays while replicas draw together."""

from __future__ import annotations

import numpy as np
import pytest

from matex.strategies.rules.partners import mix, partners, rounds

SIZES = [1, 2, 3, 4, 5, 7, 8, 13, 16]


def pairs(ranks: list[int], step: int) -> dict[int, int]:
    """The receiver of each sender; each must be expected there."""
    found = {r: partners(ranks, r, step, seed=3) for r in ranks}
    sends = {r: p.to for r, p in found.items() if p is not None}
    receives = {p.source: r for r, p in found.items() if p is not None}
    assert sends == receives
    return sends


def disagreement(models: dict[int, np.ndarray]) -> float:
    values = np.array(list(models.values()))
    return float(np.abs(values - values.mean(0)).max())


def gossip(models: dict[int, np.ndarray], step: int) -> None:
    sent = {r: m.copy() for r, m in models.items()}
    for r, to in pairs(list(models), step).items():
        models[to] = mix(models[to], sent[to], sent[r])


@pytest.mark.parametrize("size", SIZES)
def test_each_sends_to_one_and_receives_from_one(size: int) -> None:
    ranks = [2 * r + 1 for r in range(size)]  # others have died
    for step in range(4 * size):
        sends = pairs(ranks, step)
        assert sorted(sends) == sorted(sends.values())
        assert all(r != to for r, to in sends.items())
        if size > 1:
            assert sorted(sends) == ranks


@pytest.mark.parametrize(("size", "wanted"), [(1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (8, 3)])
def test_a_cycle_has_log2_rounds(size: int, wanted: int) -> None:
    assert rounds(size) == wanted


@pytest.mark.parametrize("size", [2, 4, 8, 16])
@pytest.mark.parametrize("cycle", [0, 1, 5])
def test_a_quiet_cycle_gives_the_exact_mean_of_a_power_of_two(size: int, cycle: int) -> None:
    models = {r: np.random.default_rng(r).normal(size=5) for r in range(size)}
    mean = np.mean(list(models.values()), axis=0)
    for step in range(cycle * rounds(size), (cycle + 1) * rounds(size)):
        gossip(models, step)
    for model in models.values():
        np.testing.assert_allclose(model, mean, atol=1e-14)


@pytest.mark.parametrize("size", [3, 5, 6, 7, 13])
def test_any_other_number_draws_together_and_keeps_the_mean(size: int) -> None:
    models = {r: np.random.default_rng(r).normal(size=5) for r in range(size)}
    mean, before = np.mean(list(models.values()), axis=0), disagreement(models)
    cycles = 6
    for step in range(cycles * rounds(size)):
        gossip(models, step)
    np.testing.assert_allclose(np.mean(list(models.values()), axis=0), mean, atol=1e-14)
    assert disagreement(models) < before * 0.5**cycles


def test_partners_change_from_cycle_to_cycle_and_repeat_from_the_seed() -> None:
    ranks = list(range(8))
    met = {tuple(pairs(ranks, step).items()) for step in range(0, 8 * 3, 3)}
    assert len(met) == 8
    assert pairs(ranks, 7) == pairs(ranks, 7 + 8 * 3)


def test_a_local_step_is_kept_whole_and_survivors_go_on_without_the_dead() -> None:
    """w = M w_pre + delta on noisy quadratics, with a rank lost, beside the plain equation."""
    generator = np.random.default_rng(0)
    models = {r: generator.normal(size=4) for r in range(5)}
    for step in range(60):
        if step == 25:
            models.pop(3)
        ranks = list(models)
        moves = {r: -0.1 * models[r] + 0.01 * generator.normal(size=4) for r in ranks}
        matrix = np.eye(len(ranks)) / 2
        for r, to in pairs(ranks, step).items():
            matrix[ranks.index(to), ranks.index(r)] += 0.5
        wanted = matrix @ np.array(list(models.values())) + np.array(list(moves.values()))
        sent = {r: models[r].copy() for r in ranks}
        after = {r: sent[r] + moves[r] for r in ranks}
        for r, to in pairs(ranks, step).items():
            models[to] = mix(after[to], sent[to], sent[r])
        np.testing.assert_allclose(np.array(list(models.values())), wanted, atol=1e-14)
    assert disagreement(models) < 0.1


def test_what_an_optimizer_divides_by_the_root_of_stays_above_zero() -> None:
    """A second moment forgets most of itself in a step, as Adafactor's first ones do."""
    sent, got = np.array([1.0, 1.0, 1.0]), np.array([0.1, 0.1, 1.2])
    now = np.array([0.4, 0.4, 0.5])
    mixed = mix(now, sent, got, np.array([False, True, True]))
    np.testing.assert_allclose(mixed, [-0.05, 0.1, 0.6])
