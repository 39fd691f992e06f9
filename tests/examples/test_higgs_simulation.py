"""The simulated HIGGS events: kinematics, formulas of the features, cuts, separation."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import h5py
import numpy as np
import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture(scope="module", autouse=True)
def neighbours() -> Iterator[None]:
    """The examples import each other as scripts in one folder do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(EXAMPLES))
        yield


@pytest.fixture(scope="module")
def simulation(neighbours: None) -> ModuleType:
    return importlib.import_module("course.higgs_simulation")


@pytest.fixture(scope="module")
def features(neighbours: None) -> ModuleType:
    return importlib.import_module("course.higgs_features")


@pytest.fixture(scope="module")
def events(simulation: ModuleType) -> tuple[np.ndarray, np.ndarray]:
    """Features (40000, 28) in GeV and radians, and labels (40000,)."""
    x, y = simulation.simulate(40_000, seed=3)
    return x * simulation.UNITS, y


def rank_auc(score: np.ndarray, label: np.ndarray) -> float:
    """Chance that a random signal event scores above a random background event."""
    rank = np.empty(len(score))
    rank[np.argsort(score, kind="stable")] = np.arange(1, len(score) + 1)
    positive = np.count_nonzero(label)
    above = rank[label == 1].sum() - positive * (positive + 1) / 2
    return float(above / (positive * (len(label) - positive)))


def rank_correlation(a: np.ndarray, b: np.ndarray) -> float:
    ranks = [np.argsort(np.argsort(values)) for values in (a, b)]
    return float(np.corrcoef(*ranks)[0, 1])


def undetected(truth: tuple[np.ndarray, ...], features: ModuleType) -> np.ndarray:
    """Low-level features (n, 21) of the true particles, as by a perfect detector."""
    b1, b2, q1, q2, lepton, neutrino, _ = truth
    jets = []
    for jet, tag in ((b1, 2), (b2, 2), (q1, 0), (q2, 0)):
        jets += [*features.cylindrical(jet), np.full(len(jet), tag)]
    missing_pt, _, missing_phi = features.cylindrical(neutrino)
    return np.column_stack([*features.cylindrical(lepton), missing_pt, missing_phi, *jets])


# ---------------------------------------------------------------- the events as a whole


def test_events_are_complete_float32_and_finite(simulation: ModuleType) -> None:
    x, y = simulation.simulate(5000, seed=0)
    assert (x.shape, x.dtype, y.shape, y.dtype) == ((5000, 28), np.float32, (5000,), np.float32)
    assert np.isfinite(x).all()
    assert set(np.unique(y)) == {0.0, 1.0}
    assert 0.50 < y.mean() < 0.56


def test_a_seed_repeats_and_another_differs(simulation: ModuleType) -> None:
    first, again, other = (simulation.simulate(300, seed=seed) for seed in (5, 5, 6))
    assert np.array_equal(first[0], again[0])
    assert np.array_equal(first[1], again[1])
    assert not np.array_equal(first[0], other[0])


def test_a_longer_simulation_starts_with_the_shorter(simulation: ModuleType) -> None:
    long, short = simulation.simulate(9000, seed=5), simulation.simulate(300, seed=5)
    assert np.array_equal(long[0][:300], short[0])
    assert np.array_equal(long[1][:300], short[1])
    assert len(np.unique(long[0][:, 0])) > 8900, "blocks repeat each other"


@pytest.mark.parametrize(("events", "seed"), [(0, 1), (-5, 1), (10, -1)])
def test_impossible_requests_are_refused(simulation: ModuleType, events: int, seed: int) -> None:
    with pytest.raises(ValueError, match=f"Received: events={events}, seed={seed}"):
        simulation.simulate(events, seed=seed)


def test_features_have_about_unit_size(simulation: ModuleType, features: ModuleType) -> None:
    x, _ = simulation.simulate(40_000, seed=8)
    symmetric = [name.endswith(("eta", "phi")) for name in features.FEATURES]
    size = np.where(symmetric, x.std(axis=0), x.mean(axis=0))
    assert np.abs(size - 1).max() < 0.05
    assert np.abs(x.mean(axis=0)[symmetric]).max() < 0.05


# ---------------------------------------------------------------- kinematics


def test_signal_masses_are_those_of_the_parents(
    simulation: ModuleType, features: ModuleType
) -> None:
    truth = simulation.signal(np.random.default_rng(1), 2000)
    mass = features.invariant_mass
    leptonic, hadronic = truth.lepton + truth.neutrino, truth.q1 + truth.q2
    pair = truth.b1 + truth.b2
    assert mass(pair) == pytest.approx(125, rel=1e-6)
    assert mass(pair + leptonic + hadronic) == pytest.approx(425, rel=1e-6)
    charged = np.stack([mass(pair + leptonic), mass(pair + hadronic)])
    from_leptonic = np.isclose(charged[0], 325, atol=1e-3)
    from_hadronic = np.isclose(charged[1], 325, atol=1e-3)
    assert (from_leptonic | from_hadronic).all()
    assert 0.4 < from_leptonic.mean() < 0.6
    for w in (leptonic, hadronic):
        assert np.abs(mass(w) - 80.4).max() <= 15 + 1e-6
        assert np.median(mass(w)) == pytest.approx(80.4, abs=0.2)


def test_background_masses_are_those_of_the_parents(
    simulation: ModuleType, features: ModuleType
) -> None:
    truth = simulation.background(np.random.default_rng(2), 2000)
    mass = features.invariant_mass
    for w, b in ((truth.lepton + truth.neutrino, truth.b1), (truth.q1 + truth.q2, truth.b2)):
        assert np.abs(mass(w) - 80.4).max() <= 15 + 1e-6
        assert np.abs(mass(w + b) - 172.5).max() <= 15 + 1e-6
        assert np.median(mass(w + b)) == pytest.approx(172.5, abs=0.2)
    assert mass(truth.b1 + truth.b2).std() > 50, "nothing in this process fixes m_bb"


@pytest.mark.parametrize("process", ["signal", "background"])
def test_final_particles_are_on_shell_and_balanced(
    simulation: ModuleType, features: ModuleType, process: str
) -> None:
    truth = getattr(simulation, process)(np.random.default_rng(3), 1000)
    for p in (truth.q1, truth.q2, truth.lepton, truth.neutrino, truth.recoil):
        assert features.invariant_mass(p) == pytest.approx(0, abs=0.01)
    for p in (truth.b1, truth.b2):
        assert features.invariant_mass(p) == pytest.approx(4.7, abs=0.01)
    total = np.sum(truth, axis=0)
    assert total[:, 1:3] == pytest.approx(0, abs=1e-6)
    assert total[:, 0].max() < simulation.BEAM_ENERGY


def test_two_body_decay_at_rest_is_isotropic_with_the_known_momentum(
    simulation: ModuleType,
) -> None:
    parent = np.tile([10.0, 0, 0, 0], (20_000, 1))
    first, second = simulation.two_body(np.random.default_rng(4), parent, 3.0, 4.0)
    momentum = np.sqrt((100 - 49) * (100 - 1)) / 20
    assert np.linalg.norm(first[:, 1:], axis=1) == pytest.approx(momentum)
    assert first + second == pytest.approx(parent)
    direction = first[:, 1:] / momentum
    # Five standard errors: 1/sqrt(3 n) for a cosine, sqrt(4/45 / n) for its square.
    assert direction.mean(axis=0) == pytest.approx(0, abs=5 * 0.0041)
    assert (direction**2).mean(axis=0) == pytest.approx(1 / 3, abs=5 * 0.0021)


def test_boost_moves_a_body_at_rest_with_the_frame_and_keeps_products(
    simulation: ModuleType,
) -> None:
    rng = np.random.default_rng(5)
    momentum = rng.normal(0, 100, (200, 3))
    frame = np.column_stack([np.sqrt((momentum**2).sum(axis=1) + 50.0**2), momentum])
    rest = np.tile([50.0, 0, 0, 0], (200, 1))
    assert simulation.boost(rest, frame) == pytest.approx(frame)
    a, b = rng.normal(0, 10, (2, 200, 4))
    metric = np.array([1, -1, -1, -1])
    moved = [simulation.boost(p, frame) for p in (a, b)]
    assert (moved[0] * moved[1] * metric).sum(axis=1) == pytest.approx(
        (a * b * metric).sum(axis=1), rel=1e-6, abs=1e-6
    )


def test_resonances_are_more_central_than_the_beam_allows(simulation: ModuleType) -> None:
    ratio, rapidity = simulation.parton_luminosity(
        np.random.default_rng(6), 5000, 425.0, resonant=True
    )
    assert (ratio == 1).all()
    assert np.abs(rapidity).max() < np.log(8000 / 425)
    assert abs(rapidity.mean()) < 0.1
    ratio, _ = simulation.parton_luminosity(np.random.default_rng(6), 5000, 345.0, resonant=False)
    assert ratio.min() > 1
    assert 1.2 < np.median(ratio) < 1.6, "most top pairs are made not far above threshold"


# ---------------------------------------------------------------- formulas of the features


def test_neutrino_solves_the_w_mass(features: ModuleType) -> None:
    rng = np.random.default_rng(7)
    n = 2000
    lepton = features.four_vector(
        rng.uniform(20, 90, n), rng.uniform(-2.5, 2.5, n), rng.uniform(-3, 3, n)
    )
    missing = rng.normal(0, 40, (2, n))
    size = np.hypot(*missing)
    pz = features.neutrino_pz(lepton, *missing)
    neutrino = np.column_stack([np.hypot(size, pz), *missing, pz])
    mass = features.invariant_mass(lepton + neutrino)

    lepton_pt = np.hypot(lepton[:, 1], lepton[:, 2])
    product = lepton[:, 1] * missing[0] + lepton[:, 2] * missing[1]
    transverse = np.sqrt(2 * (lepton_pt * size - product))
    solvable = transverse < 80.4
    assert 100 < solvable.sum() < n - 100
    assert mass[solvable] == pytest.approx(80.4, rel=1e-6)
    assert mass[~solvable] == pytest.approx(transverse[~solvable], rel=1e-6)

    # The sum of both solutions is known without solving: the other one is never the smaller.
    both = 2 * lepton[:, 3] * (80.4**2 / 2 + product) / lepton_pt**2
    assert (np.abs(pz) <= np.abs(both - pz) + 1e-6)[solvable].all()


def test_masses_of_an_event_made_by_hand(features: ModuleType) -> None:
    """Pairs of massless bodies: m^2 = 2 pT1 pT2 (cosh(eta1 - eta2) - cos(phi1 - phi2))."""
    lepton, missing = [40.2, 0.0, 0.0], [40.2, np.pi]  # back to back: m = 80.4 without any pz
    jets = [[90.0, 0.5, 1.0, 0], [70.0, -1.0, 2.5, 2], [50.0, 0.0, -1.0, 0], [30.0, 1.5, -2.0, 1]]
    masses = features.high_level(np.array([[*lepton, *missing, *np.ravel(jets)]]))[0]
    named = dict(zip(features.HIGH_LEVEL, masses, strict=True))

    def pair(a: list[float], b: list[float]) -> float:
        return float(2 * a[0] * b[0] * (np.cosh(a[1] - b[1]) - np.cos(a[2] - b[2])))

    def mass(*bodies: list[float]) -> float:
        """Mass of massless bodies: m^2 is the sum over all pairs."""
        every = [(a, b) for i, a in enumerate(bodies) for b in bodies[:i]]
        return float(np.sqrt(sum(pair(a, b) for a, b in every)))

    q1, b1, q2, b2 = jets
    neutrino = [40.2, 0.0, np.pi]
    assert named["m_bb"] == pytest.approx(mass(b1, b2))
    assert named["m_jj"] == pytest.approx(mass(q1, q2))
    assert named["m_lv"] == pytest.approx(80.4)
    assert named["m_wwbb"] == pytest.approx(mass(q1, q2, b1, b2, lepton, neutrino))
    assert named["m_wbb"] == pytest.approx(
        max(mass(q1, q2, b1, b2), mass(lepton, neutrino, b1, b2))
    )
    choices = [
        (mass(q1, q2, b1), mass(lepton, neutrino, b2)),
        (mass(q1, q2, b2), mass(lepton, neutrino, b1)),
    ]
    best = min(choices, key=lambda tops: sum((top - 172.5) ** 2 for top in tops))
    assert (named["m_jjj"], named["m_jlv"]) == pytest.approx(best)


def test_equal_tags_are_settled_by_transverse_momentum(features: ModuleType) -> None:
    jets = [[90.0, 0.5, 1.0, 1], [70.0, -1.0, 2.5, 1], [50.0, 0.0, -1.0, 1], [30.0, 1.5, -2.0, 0]]
    start = [40.0, 0.0, 0.0, 40.0, 2.0]
    rows = [[*start, *np.ravel([jets[i] for i in order])] for order in ((0, 1, 2, 3), (3, 2, 1, 0))]
    straight, reverse = features.high_level(np.array(rows))
    m_bb = np.sqrt(2 * 90 * 70 * (np.cosh(1.5) - np.cos(1.5)))
    assert straight[features.HIGH_LEVEL.index("m_bb")] == pytest.approx(m_bb)
    assert reverse == pytest.approx(straight), "the order of the jets must not matter"


def test_a_perfect_detector_would_see_the_parents(
    simulation: ModuleType, features: ModuleType
) -> None:
    rng = np.random.default_rng(9)
    for process, column, wanted in (
        ("signal", "m_bb", 125.0),
        ("signal", "m_jj", 80.4),
        ("background", "m_jj", 80.4),
        ("background", "m_jjj", 172.5),
        ("background", "m_jlv", 172.5),
    ):
        low = undetected(getattr(simulation, process)(rng, 2000), features)
        masses = features.high_level(low)[:, features.HIGH_LEVEL.index(column)]
        # Jets count as massless and W bosons have widths, and the neutrino's pz may be the other.
        assert np.median(masses) == pytest.approx(wanted, rel=0.01), (process, column)


# ---------------------------------------------------------------- detector and cuts


def test_events_pass_the_cuts(events: tuple[np.ndarray, np.ndarray]) -> None:
    x, _ = events
    lepton, jets = x[:, :3], x[:, 5:21].reshape(-1, 4, 4)
    edge = 1e-4  # float32 of a scaled feature
    assert lepton[:, 0].min() >= 20 - edge
    assert jets[..., 0].min() >= 20 - edge
    assert max(np.abs(lepton[:, 1]).max(), np.abs(jets[..., 1]).max()) <= 2.5 + edge
    assert max(np.abs(x[:, [2, 4]]).max(), np.abs(jets[..., 2]).max()) <= np.pi + edge
    assert (np.diff(jets[..., 0], axis=1) <= edge).all(), "jets are in the order of their pT"
    tags = jets[..., 3].round(4)
    assert set(np.unique(tags)) == {0.0, 1.0, 2.0}
    assert ((tags > 0).sum(axis=1) >= 2).all()


def test_lepton_and_jets_are_apart(events: tuple[np.ndarray, np.ndarray]) -> None:
    x, _ = events
    bodies = [x[:, [1, 2]], *(x[:, [6 + 4 * i, 7 + 4 * i]] for i in range(4))]
    closest = np.inf
    for i, a in enumerate(bodies):
        for b in bodies[:i]:
            turn = (a[:, 1] - b[:, 1] + np.pi) % (2 * np.pi) - np.pi
            separation = np.hypot(a[:, 0] - b[:, 0], turn)
            # Two jets may come closer when a third has been added to one of them.
            closest = min(closest, np.quantile(separation, 0.002))
    assert closest > 0.4 - 1e-4


def test_high_level_features_are_functions_of_the_low_level_ones(
    features: ModuleType, events: tuple[np.ndarray, np.ndarray]
) -> None:
    x, _ = events
    low = x[:, :21].copy()
    low[:, [8, 12, 16, 20]] = low[:, [8, 12, 16, 20]].round()
    # Not in all: float32 may turn a solvable neutrino or a pairing over in a few events.
    error = np.abs(features.high_level(low) / x[:, 21:] - 1)
    assert np.quantile(error, 0.999) < 1e-3


def test_the_detector_blurs_but_does_not_bias(simulation: ModuleType, features: ModuleType) -> None:
    rng = np.random.default_rng(10)
    truth = simulation.signal(rng, 20_000)
    low, passed = simulation.detect(rng, truth)
    assert 0.1 < passed.mean() < 0.6
    true_pt = features.cylindrical(truth.lepton)[0]
    ratio = low[passed, 0] / true_pt[passed]
    assert ratio.mean() == pytest.approx(1, abs=0.005)
    assert 0.005 < ratio.std() < 0.05
    true_missing = features.cylindrical(truth.neutrino)[0]
    assert rank_correlation(low[passed, 3], true_missing[passed]) > 0.4


# ---------------------------------------------------------------- what a classifier can use


def test_m_bb_of_the_signal_peaks_at_the_light_higgs(
    features: ModuleType, events: tuple[np.ndarray, np.ndarray]
) -> None:
    x, y = events
    m_bb = x[:, features.FEATURES.index("m_bb")]
    count, edges = np.histogram(m_bb[y == 1], bins=np.arange(0, 400, 10))
    peak = edges[count.argmax()] + 5
    assert 110 <= peak <= 140
    near = [(np.abs(m_bb[y == label] - 125) < 25).mean() for label in (0, 1)]
    assert near[1] > 2 * near[0]


@pytest.mark.parametrize(("name", "centre", "least"), [("m_bb", 122, 0.70), ("m_wwbb", 430, 0.58)])
def test_masses_separate_signal_from_background(
    features: ModuleType,
    events: tuple[np.ndarray, np.ndarray],
    name: str,
    centre: float,
    least: float,
) -> None:
    x, y = events
    auc = rank_auc(-np.abs(x[:, features.FEATURES.index(name)] - centre), y)
    assert least < auc < 0.85, "neither hopeless nor trivial"


def test_no_low_level_feature_gives_the_answer_away(
    features: ModuleType, events: tuple[np.ndarray, np.ndarray]
) -> None:
    x, y = events
    aucs = {name: rank_auc(x[:, i], y) for i, name in enumerate(features.LOW_LEVEL)}
    assert {name: auc for name, auc in aucs.items() if abs(auc - 0.5) > 0.1} == {}
    directions = [auc for name, auc in aucs.items() if name.endswith("phi")]
    assert np.abs(np.array(directions) - 0.5).max() < 0.02, "azimuths carry nothing alone"


# ---------------------------------------------------------------- beside the real file


def test_formulas_agree_with_the_uci_file(
    features: ModuleType, real_data: Callable[[str], Path]
) -> None:
    """The file's units are unknown but follow from the cuts: pT above 20 GeV, |eta| below 2.5."""
    with h5py.File(real_data("higgs.h5")) as file:
        x = file["x_train"][:20_000].astype(np.float64)
    low = x[:, :21].copy()
    for column, name in enumerate(features.LOW_LEVEL):
        values = low[:, column]
        if name.lower().endswith("pt"):
            low[:, column] *= 20 / values.min()
        elif name.endswith("eta"):
            low[:, column] *= 2.5 / np.abs(values).max()
        elif name.endswith("phi"):
            low[:, column] *= np.pi / np.abs(values).max()
    two_tags = (low[:, [8, 12, 16, 20]] > 0).sum(axis=1) == 2
    ours = features.high_level(low[two_tags])
    theirs = x[two_tags, 21:]
    m_bb = features.HIGH_LEVEL.index("m_bb")
    assert rank_correlation(ours[:, m_bb], theirs[:, m_bb]) > 0.95
    ratio = ours[:, m_bb] / theirs[:, m_bb]
    assert np.std(ratio) < 0.15 * np.mean(ratio), "the same mass in another unit"
