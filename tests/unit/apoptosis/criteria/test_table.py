"""The units that each criterion removes; those that stay take over their work."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from matex.apoptosis.criteria.table import CRITERIA
from matex.apoptosis.group_statistics import GroupStatistics, Limits, Reader, Removal

COMPENSATING = ["gram", "projection", "similarity", "angle"]
BY_LOSS = [name for name, criterion in CRITERIA.items() if criterion.derivatives]


def choose(criterion: str, statistics: GroupStatistics, limits: Limits) -> Removal:
    return CRITERIA[criterion].choose(statistics, limits, 0)


def layer(
    inputs: np.ndarray, weights: np.ndarray, outgoing: np.ndarray, *, constant: bool = False
) -> tuple[GroupStatistics, np.ndarray]:
    """A ReLU layer of *weights* (units, inputs), and its activations on *inputs*."""
    activations = np.maximum(inputs @ weights.T, 0.0)
    seen = np.hstack([activations, np.ones((len(inputs), 1))]) if constant else activations
    reader = Reader(seen.T @ seen / len(seen), outgoing)
    power = np.square(seen).mean(0)[: len(weights)]  # stands in for what a loss would say
    return GroupStatistics(weights, (reader,), scales=True, importance=power), activations


def outputs(
    criterion: str, statistics: GroupStatistics, activations: np.ndarray, removal: Removal
) -> np.ndarray:
    """Outputs of the reader for the units that stay."""
    (transfer,) = CRITERIA[criterion].transfers(statistics, removal.kept, removal.removed)
    outgoing = statistics.readers[0].outgoing
    k = len(removal.kept)
    rows = outgoing[removal.kept] + transfer[:k] @ outgoing[removal.removed]
    bias = (transfer[k:] @ outgoing[removal.removed]).sum(0)
    result: np.ndarray = activations[:, removal.kept] @ rows + bias
    return result


def at_most(most: int) -> Limits:
    return Limits(most=most, budget=np.inf)


@pytest.fixture
def generator() -> np.random.Generator:
    return np.random.default_rng(5)


@pytest.mark.parametrize(
    ("criterion", "factor"),
    [(c, f) for c in COMPENSATING for f in (1.0, 2.5) if (c, f) != ("similarity", 2.5)],
)
def test_parallel_units_are_merged_exactly(
    criterion: str, factor: float, generator: np.random.Generator
) -> None:
    weights = generator.normal(size=(12, 7))
    weights[9:] = factor * weights[[0, 1, 0]]
    outgoing = generator.normal(size=(12, 5))
    statistics, activations = layer(generator.normal(size=(400, 7)), weights, outgoing)
    removal = choose(criterion, statistics, at_most(3))
    assert removal.cost < 1e-6  # the ridge
    wanted = activations @ outgoing
    np.testing.assert_allclose(
        outputs(criterion, statistics, activations, removal),
        wanted,
        atol=1e-5 * np.abs(wanted).max(),
    )


def test_dead_and_constant_units_go_first_and_exactly(generator: np.random.Generator) -> None:
    inputs = np.hstack([generator.normal(size=(300, 6)), np.ones((300, 1))])
    weights = generator.normal(size=(10, 7))
    weights[3, :6], weights[3, 6] = 0.0, 0.7
    weights[6] = [*[0.0] * 6, -1.0]
    outgoing = generator.normal(size=(10, 4))
    statistics, activations = layer(inputs, weights, outgoing, constant=True)
    removal = choose("gram", statistics, at_most(2))
    assert sorted(removal.removed) == [3, 6]
    np.testing.assert_allclose(
        outputs("gram", statistics, activations, removal), activations @ outgoing, atol=1e-5
    )


@pytest.mark.parametrize("width", [9, 70])
def test_the_cost_of_gram_is_the_mean_square_that_is_lost(
    width: int, generator: np.random.Generator
) -> None:
    weights = generator.normal(size=(200, 30))
    outgoing = generator.normal(size=(200, width))
    statistics, activations = layer(generator.normal(size=(900, 30)), weights, outgoing)
    removal = choose("gram", statistics, at_most(130))
    wanted = activations @ outgoing
    lost = np.square(outputs("gram", statistics, activations, removal) - wanted).sum()
    assert removal.cost == pytest.approx(lost / np.square(wanted).sum(), rel=1e-3)


@pytest.mark.parametrize("width", [6, 70])
def test_blocks_choose_as_one_by_one_does(width: int, generator: np.random.Generator) -> None:
    """Against the definition: invert the matrix anew for every unit."""
    weights, outgoing = generator.normal(size=(120, 20)), generator.normal(size=(120, width))
    statistics, _ = layer(generator.normal(size=(700, 20)), weights, outgoing)
    gram = statistics.readers[0].gram
    gram = gram + 1e-7 * np.diag(np.diagonal(gram))
    left, rows, order = list(range(120)), outgoing.copy(), []
    for _ in range(100):
        inverse = np.linalg.inv(gram[np.ix_(left, left)])
        scores = np.square(rows[left]).sum(1) / np.diagonal(inverse)
        j = int(scores.argmin())
        rows[left] -= np.outer(inverse[:, j] / inverse[j, j], rows[left[j]])
        order.append(left.pop(j))
    removal = choose("gram", statistics, at_most(100))
    assert removal.removed.tolist() == order


def test_the_guide_names_every_criterion() -> None:
    guide = Path(__file__).parents[4] / "docs" / "guide" / "apoptosis.md"
    (line,) = [one for one in guide.read_text().splitlines() if one.startswith("| `criterion` |")]
    assert [name for name in CRITERIA if f"`{name}`" not in line] == []


@pytest.mark.parametrize("criterion", CRITERIA)
def test_each_criterion_keeps_its_limits(criterion: str, generator: np.random.Generator) -> None:
    weights, outgoing = generator.normal(size=(40, 9)), generator.normal(size=(40, 3))
    statistics, _ = layer(generator.normal(size=(200, 9)), weights, outgoing)
    assert len(choose(criterion, statistics, at_most(11)).removed) == 11
    everything = choose(criterion, statistics, at_most(40))
    assert len(everything.kept) == 1
    budget = choose(criterion, statistics, Limits(most=40, budget=everything.cost / 20))
    assert budget.cost <= everything.cost / 20 < everything.cost
    assert 0 < len(budget.kept) < 40
    parts = ((np.arange(10), 8), (np.arange(10, 40), 1))
    kept = choose(criterion, statistics, Limits(40, np.inf, parts)).kept
    assert (np.sum(kept < 10), np.sum(kept >= 10)) == (8, 1)


@pytest.mark.parametrize("criterion", BY_LOSS)
def test_what_the_loss_says_least_about_goes_first_and_nothing_takes_over(criterion: str) -> None:
    statistics, activations = layer(np.eye(5), np.ones((5, 5)), np.ones((5, 2)))
    statistics = statistics._replace(importance=np.array([3.0, 0.0, 4.0, 1.0, 2.0]))
    removal = choose(criterion, statistics, at_most(3))
    assert removal.removed.tolist() == [1, 3, 4]
    assert removal.costs.tolist() == pytest.approx([0.0, 0.1, 0.3])
    assert outputs(criterion, statistics, activations, removal) == pytest.approx(2.0)
    nothing = statistics._replace(importance=np.array([3.0, np.nan, 4.0, 1.0, 2.0]))
    assert not len(choose(criterion, nothing, at_most(3)).removed)


def test_importance_is_the_published_formula() -> None:
    taylor, oba = CRITERIA["taylor"].derivatives, CRITERIA["oba"].derivatives
    assert taylor is not None
    assert oba is not None
    assert taylor.importance(np.array([[1.0, 4.0]])).tolist() == [1.0, 4.0]
    sums = np.array([[1.0, 2.0, -1.0], [4.0, 2.0, 2.0]])
    assert oba.importance(sums).tolist() == [1.0, 1.0, 2.0]


def test_a_part_that_comes_to_its_end_leaves_the_others(generator: np.random.Generator) -> None:
    """The first half is cheap, and most of it stays: what goes of the second is dear."""
    weights, outgoing = generator.normal(size=(800, 9)), generator.normal(size=(800, 3))
    weights[:400] = weights[:20].repeat(20, 0)
    statistics, _ = layer(generator.normal(size=(900, 9)), weights, outgoing)
    parts = ((np.arange(400), 250), (np.arange(400, 800), 10))
    removed = choose("gram", statistics, Limits(190, np.inf, parts)).removed
    assert (np.sum(removed < 400), np.sum(removed >= 400)) == (150, 40)


def test_more_units_than_a_block_cost_nothing_alike(generator: np.random.Generator) -> None:
    outgoing = generator.normal(size=(512, 3))
    superfluous = generator.permutation(512)[:300]
    outgoing[superfluous] = 0.0
    weights = generator.normal(size=(512, 9))
    statistics, _ = layer(generator.normal(size=(900, 9)), weights, outgoing)
    removal = choose("gram", statistics, at_most(300))
    assert removal.cost == 0.0
    np.testing.assert_array_equal(np.sort(removal.removed), np.sort(superfluous))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_of_a_network_that_has_diverged_nothing_goes(
    value: float, generator: np.random.Generator
) -> None:
    statistics, _ = layer(
        generator.normal(size=(90, 9)), generator.normal(size=(40, 9)), np.full((40, 3), value)
    )
    assert not len(choose("gram", statistics, at_most(11)).removed)


def test_every_reader_counts_and_gets_its_own_compensation(generator: np.random.Generator) -> None:
    weights = generator.normal(size=(16, 6))
    weights[10] = weights[2]
    first, second = generator.normal(size=(2, 16, 4))
    second[5] = 50.0  # cheap in the first reader alone
    first[5] = 1e-3
    inputs = generator.normal(size=(300, 6))
    statistics, activations = layer(inputs, weights, first)
    pooled = activations[:150] + activations[150:]
    other = Reader(pooled.T @ pooled / 150, second)
    removal = choose("gram", statistics._replace(readers=(*statistics.readers, other)), at_most(4))
    assert 5 not in removal.removed
    assert len({2, 10} & set(removal.removed.tolist())) == 1


def test_units_that_do_not_scale_are_merged_only_when_equal(
    generator: np.random.Generator,
) -> None:
    weights = generator.normal(size=(8, 5))
    weights[6], weights[7] = 3 * weights[1], weights[2]
    statistics, _ = layer(generator.normal(size=(9, 5)), weights, generator.normal(size=(8, 2)))
    for criterion in ("projection", "angle"):
        (removed,) = choose(criterion, statistics._replace(scales=False), at_most(1)).removed
        assert removed in (2, 7)


# Real networks: a small classifier, trained here, that has more units than it needs.


def digits(generator: np.random.Generator, samples: int) -> tuple[np.ndarray, np.ndarray]:
    """Ten smooth prototypes of 8 x 8, shifted and blurred by noise."""
    shapes = np.random.default_rng(1).normal(size=(10, 8, 8))
    shapes = sum(np.roll(shapes, (i, j), (1, 2)) for i in (0, 1) for j in (0, 1)) / 2
    labels = generator.integers(0, 10, samples)
    shifts = generator.integers(-1, 2, size=(samples, 2))
    images = np.stack([np.roll(shapes[k], s, (0, 1)) for k, s in zip(labels, shifts, strict=True)])
    images += 0.8 * generator.normal(size=images.shape)
    return images.reshape(samples, 64), labels


def trained(x: np.ndarray, y: np.ndarray, units: int) -> tuple[np.ndarray, np.ndarray]:
    """Weights of a net 64-units-10 after some epochs of Adam."""
    generator = np.random.default_rng(2)
    w1 = generator.normal(size=(units, 65)) * np.sqrt(2 / 64)
    w2 = generator.normal(size=(units, 10)) * np.sqrt(1 / units)
    moments = [np.zeros((2, *w.shape)) for w in (w1, w2)]
    ones = np.ones((len(x), 1))
    x = np.hstack([x, ones])
    step = 0
    for _ in range(12):
        for rows in np.array_split(generator.permutation(len(x)), len(x) // 64):
            step += 1
            hidden = np.maximum(x[rows] @ w1.T, 0)
            logits = hidden @ w2
            p = np.exp(logits - logits.max(1, keepdims=True))
            p /= p.sum(1, keepdims=True)
            p[np.arange(len(rows)), y[rows]] -= 1
            p /= len(rows)
            back = (p @ w2.T) * (hidden > 0)
            for k, g in enumerate((back.T @ x[rows], hidden.T @ p)):
                m = moments[k]
                m[0] += 0.1 * (g - m[0])
                m[1] += 0.01 * (g * g - m[1])
                rate = 2e-3 * np.sqrt(1 - 0.99**step) / (1 - 0.9**step)
                (w1, w2)[k][:] -= rate * m[0] / (np.sqrt(m[1]) + 1e-8)
    return w1, w2


def test_gram_beats_the_baselines_on_a_trained_network() -> None:
    generator = np.random.default_rng(0)
    x, y = digits(generator, 4000)
    w1, w2 = trained(x[:3000], y[:3000], 96)
    with_one = np.hstack([x, np.ones((len(x), 1))])
    statistics, _ = layer(with_one[:2000], w1, w2)
    held_out = np.maximum(with_one[3000:] @ w1.T, 0)

    def accuracy(criterion: str, most: int) -> float:
        removal = choose(criterion, statistics, at_most(most))
        logits = outputs(criterion, statistics, held_out, removal)
        return float((logits.argmax(1) == y[3000:]).mean())

    base = accuracy("gram", 0)
    assert base > 0.9
    for most in (48, 72):
        found = {criterion: accuracy(criterion, most) for criterion in set(CRITERIA) - {*BY_LOSS}}
        assert found["gram"] > found["magnitude"]
        assert found["gram"] > found["random"]
        assert found["gram"] >= max(found.values()) - 0.005
    assert accuracy("gram", 48) > base - 0.03
