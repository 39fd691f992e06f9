"""A small simulation of the HIGGS benchmark: proton collisions at 8 TeV, NumPy only.

The two processes are those of Baldi, Sadowski and Whiteson (arXiv:1402.4735):

- signal: gg -> H0 -> W H+-, H+- -> W h0, h0 -> b b;
- background: t tbar, each t -> W b.

In both, one W decays to an electron or muon and its neutrino, the other to two quarks, so both
end in the same particles. Every decay is into two bodies and isotropic in its parent's rest frame.
W bosons and top quarks have Breit-Wigner masses, the narrow Higgs bosons fixed ones. Matrix
elements, spins and showers are left out: these are events to train on, not to publish.

Four-vectors are float64 arrays (n, 4) of (E, px, py, pz) in GeV, as in `higgs_features`.
"""

import itertools
from typing import NamedTuple

import numpy as np
from course.higgs_features import (
    TOP_MASS,
    W_MASS,
    cylindrical,
    four_vector,
    high_level,
    invariant_mass,
)

BEAM_ENERGY = 8000.0  # of both protons together, GeV
H0_MASS, CHARGED_HIGGS_MASS, LIGHT_HIGGS_MASS, B_MASS = 425.0, 325.0, 125.0, 4.7
W_WIDTH, TOP_WIDTH = 2.1, 1.4

BLOCK = 20_000  # events generated at a time, before the cuts: bounds the memory
SIGNAL_SHARE = 0.55  # before the cuts; 0.53 after them, as in the UCI file
MIN_PT, MAX_ETA = 20.0, 2.5  # acceptance of the lepton and of jets
CONE = 0.4  # partons closer than this in (eta, phi) are one jet
# Chance of at least a loose (1) and of a tight (2) b tag for jets of light, charm, bottom quarks.
TAG_CHANCE = np.array([[0.03, 0.01], [0.20, 0.10], [0.75, 0.60]])
SEMILEPTONIC = 0.35  # of b jets, whose neutrino takes up to half of the energy
RADIATED = 0.12  # mean share of a jet's energy that falls outside its cone
CALIBRATION = 1.2  # makes up for both on average, b jets a little less, light jets more

# One unit of each feature: about its mean over all events, or its standard deviation where the
# mean is zero, as in the UCI file. Fixed, so that an event does not depend on its neighbours.
UNITS = np.array(
    [
        *(59.9, 1.06, 1.81, 52.4, 1.81),  # lepton pT, eta, phi; missing momentum, phi
        *(113.0, 1.03, 1.82, 1.15, 76.9, 1.08, 1.81, 0.950),  # jets: pT, eta, phi, b tag
        *(53.4, 1.14, 1.81, 0.886, 36.5, 1.20, 1.81, 0.745),
        *(121.0, 216.0, 86.1, 184.0, 137.0, 375.0, 515.0),  # masses
    ]
)

Generator = np.random.Generator


class Truth(NamedTuple):
    """The final particles before the detector, one four-vector (n, 4) each."""

    b1: np.ndarray
    b2: np.ndarray
    q1: np.ndarray
    q2: np.ndarray
    lepton: np.ndarray
    neutrino: np.ndarray
    recoil: np.ndarray  # one massless jet from the initial state that balances all of them


def boost(p: np.ndarray, frame: np.ndarray) -> np.ndarray:
    """Take `p` (n, 4) from the rest frame of the massive `frame` (n, 4) to where that moves."""
    mass = invariant_mass(frame)
    energy = (frame * p).sum(axis=1) / mass
    factor = (p[:, 0] + energy) / (frame[:, 0] + mass)
    return np.column_stack([energy, p[:, 1:] + factor[:, None] * frame[:, 1:]])


def two_body(
    rng: Generator, parent: np.ndarray, mass1: np.ndarray | float, mass2: np.ndarray | float
) -> tuple[np.ndarray, np.ndarray]:
    """Decay `parent` (n, 4) isotropically in its rest frame into two bodies (n, 4) each.

    p* = sqrt((M^2 - (m1 + m2)^2) (M^2 - (m1 - m2)^2)) / 2M; the masses must satisfy m1 + m2 <= M.
    """
    mass = invariant_mass(parent)
    square = (mass**2 - (mass1 + mass2) ** 2) * (mass**2 - (mass1 - mass2) ** 2)
    momentum = np.sqrt(np.maximum(square, 0.0)) / (2 * mass)
    cosine = rng.uniform(-1.0, 1.0, len(parent))
    azimuth = rng.uniform(-np.pi, np.pi, len(parent))
    across = momentum * np.sqrt(1 - cosine**2)
    vector = np.column_stack(
        [across * np.cos(azimuth), across * np.sin(azimuth), momentum * cosine]
    )
    first = np.column_stack([np.sqrt(momentum**2 + mass1**2), vector])
    second = np.column_stack([np.sqrt(momentum**2 + mass2**2), -vector])
    return boost(first, parent), boost(second, parent)


def breit_wigner(rng: Generator, n: int, mass: float, width: float) -> np.ndarray:
    """Masses (n,) in GeV of a resonance, cut off 15 GeV from the peak so that decays stay open."""
    edge = np.arctan(15.0 / (width / 2))
    return mass + width / 2 * np.tan(rng.uniform(-edge, edge, n))


def parton_luminosity(
    rng: Generator, n: int, threshold: float, *, resonant: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Mass over `threshold` (GeV) and rapidity, (n,) each, of what two gluons make.

    With gluon densities x g(x) ~ x^-0.7 (1 - x)^5 and x1, x2 = M / sqrt(s) exp(+-y), the rapidity
    of a resonance has the density ((1 - x1) (1 - x2))^5, and a continuum above the threshold T,
    with the phase space of two bodies, M^-4.4 sqrt(1 - T^2 / M^2) times that. By rejection.
    """
    ratio, rapidity = np.empty(0), np.empty(0)
    while len(ratio) < n:
        trial = np.ones(2 * n) if resonant else rng.uniform(size=2 * n) ** (-1 / 3.4)
        y = rng.uniform(-3.0, 3.0, 2 * n)
        x1, x2 = (trial * threshold / BEAM_ENERGY * np.exp(sign * y) for sign in (1, -1))
        weight = (np.maximum(1 - x1, 0) * np.maximum(1 - x2, 0)) ** 5
        if not resonant:
            weight *= np.sqrt(1 - trial**-2)
        kept = rng.uniform(size=2 * n) < weight
        ratio, rapidity = np.append(ratio, trial[kept]), np.append(rapidity, y[kept])
    return ratio[:n], rapidity[:n]


def initial_state(
    rng: Generator, mass: np.ndarray, rapidity: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Four-vectors (n, 4) of a system of given mass and rapidity, and of the jet it recoils from.

    The transverse momentum, mean 37 GeV, follows a gamma distribution. The jet is spread evenly
    in pseudorapidity, up to 4 or an energy of 1 TeV.
    """
    n = len(mass)
    pt, phi = rng.gamma(1.5, 25.0, n), rng.uniform(-np.pi, np.pi, n)
    reach = np.minimum(np.arccosh(np.maximum(1000 / pt, 1.0)), 4.0)
    recoil = four_vector(pt, reach * rng.uniform(-1.0, 1.0, n), phi)
    across = np.hypot(mass, pt)
    system = np.column_stack(
        [across * np.cosh(rapidity), -recoil[:, 1], -recoil[:, 2], across * np.sinh(rapidity)]
    )
    return system, recoil


def signal(rng: Generator, n: int) -> Truth:
    """n events of gg -> H0 -> W H+- -> W W h0 -> W W b b; either W may be the leptonic one."""
    ratio, rapidity = parton_luminosity(rng, n, H0_MASS, resonant=True)
    heavy, recoil = initial_state(rng, ratio * H0_MASS, rapidity)
    mass1, mass2 = (breit_wigner(rng, n, W_MASS, W_WIDTH) for _ in range(2))
    w1, charged = two_body(rng, heavy, mass1, CHARGED_HIGGS_MASS)
    w2, light = two_body(rng, charged, mass2, LIGHT_HIGGS_MASS)
    b1, b2 = two_body(rng, light, B_MASS, B_MASS)
    first = rng.uniform(size=(n, 1)) < 0.5
    q1, q2 = two_body(rng, np.where(first, w2, w1), 0.0, 0.0)
    lepton, neutrino = two_body(rng, np.where(first, w1, w2), 0.0, 0.0)
    return Truth(b1, b2, q1, q2, lepton, neutrino, recoil)


def background(rng: Generator, n: int) -> Truth:
    """n events of t tbar -> W b W b; the lepton and `b1` come from the same top quark."""
    ratio, rapidity = parton_luminosity(rng, n, 2 * TOP_MASS, resonant=False)
    top1, top2 = (breit_wigner(rng, n, TOP_MASS, TOP_WIDTH) for _ in range(2))
    pair, recoil = initial_state(rng, ratio * (top1 + top2), rapidity)
    t1, t2 = two_body(rng, pair, top1, top2)
    w1, b1 = two_body(rng, t1, breit_wigner(rng, n, W_MASS, W_WIDTH), B_MASS)
    w2, b2 = two_body(rng, t2, breit_wigner(rng, n, W_MASS, W_WIDTH), B_MASS)
    lepton, neutrino = two_body(rng, w1, 0.0, 0.0)
    q1, q2 = two_body(rng, w2, 0.0, 0.0)
    return Truth(b1, b2, q1, q2, lepton, neutrino, recoil)


def _smear(rng: Generator, p: np.ndarray, stochastic: float, constant: float) -> np.ndarray:
    """Scale four-vectors (..., 4) at random: sigma(E)/E = stochastic/sqrt(E) (+) constant."""
    spread = np.hypot(stochastic / np.sqrt(p[..., 0]), constant)
    factor = 1 + spread * rng.normal(size=spread.shape)
    scaled: np.ndarray = p * np.maximum(factor, 0.05)[..., None]
    return scaled


def _merge(jets: np.ndarray, flavour: np.ndarray) -> None:
    """Add up, in place, jets (n, 5, 4) closer than CONE; the other becomes zero, flavour 0."""
    _, eta, phi = cylindrical(jets)
    for i, j in itertools.combinations(range(jets.shape[1]), 2):
        turn = (phi[:, i] - phi[:, j] + np.pi) % (2 * np.pi) - np.pi
        near = np.flatnonzero(np.hypot(eta[:, i] - eta[:, j], turn) < CONE)
        jets[near, i] += jets[near, j]
        jets[near, j] = 0.0
        flavour[near, i] = np.maximum(flavour[near, i], flavour[near, j])
        flavour[near, j] = 0


def detect(rng: Generator, truth: Truth) -> tuple[np.ndarray, np.ndarray]:
    """Measure n events: low-level features (n, 21), and whether each passes, (n,) bool.

    Features are in GeV and radians, b tags 0, 1 or 2. An event passes with one isolated lepton and
    four jets, each above 20 GeV and within |eta| < 2.5, if two of the leading four are b-tagged.
    """
    n = len(truth.lepton)
    partons = np.stack([truth.b1, truth.b2, truth.q1, truth.q2, truth.recoil], axis=1)
    flavour = np.tile([2, 2, 0, 0, 0], (n, 1))
    flavour[:, 2] = rng.uniform(size=n) < 0.5  # half of the W -> q q are W -> c s
    semileptonic = (flavour == 2) & (rng.uniform(size=(n, 5)) < SEMILEPTONIC)
    partons *= (1 - semileptonic * rng.uniform(0.0, 0.5, (n, 5)))[..., None]
    jets, lepton = _smear(rng, partons, 1.0, 0.08), _smear(rng, truth.lepton, 0.1, 0.01)
    seen = np.abs(cylindrical(jets)[1])[..., None] < 5.0
    missing = rng.normal(0.0, 8.0, (n, 2)) - (jets * seen).sum(axis=1)[:, 1:3] - lepton[:, 1:3]

    radiated = np.minimum(rng.exponential(RADIATED, (n, 5)), 0.8)
    jets *= CALIBRATION * (1 - radiated)[..., None]
    _merge(jets, flavour)
    pt, eta, phi = cylindrical(jets)
    pt = np.where((pt > MIN_PT) & (np.abs(eta) < MAX_ETA), pt, 0.0)
    tag = (rng.uniform(size=(n, 5, 1)) < TAG_CHANCE[flavour]).sum(axis=-1)
    order = np.argsort(-pt, axis=1)[:, :4]
    leading = np.take_along_axis(np.stack([pt, eta, phi, tag], axis=-1), order[..., None], axis=1)

    lepton_pt, lepton_eta, lepton_phi = (part[:, None] for part in cylindrical(lepton))
    turn = (phi - lepton_phi + np.pi) % (2 * np.pi) - np.pi
    crowded = (np.hypot(eta - lepton_eta, turn) < CONE) & (pt > 0)
    passed = (lepton_pt[:, 0] > MIN_PT) & (np.abs(lepton_eta[:, 0]) < MAX_ETA)
    passed &= ~crowded.any(axis=1) & (leading[:, 3, 0] > 0)
    passed &= (leading[..., 3] > 0).sum(axis=1) >= 2
    magnitude = np.hypot(missing[:, 0], missing[:, 1])
    azimuth = np.arctan2(missing[:, 1], missing[:, 0])
    low = [lepton_pt, lepton_eta, lepton_phi, magnitude, azimuth, leading.reshape(n, 16)]
    return np.column_stack(low), passed


def _block(seed: int, number: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng([seed, number])
    n_signal = round(BLOCK * SIGNAL_SHARE)
    parts = zip(signal(rng, n_signal), background(rng, BLOCK - n_signal), strict=True)
    low, passed = detect(rng, Truth(*(np.concatenate(pair) for pair in parts)))
    label = np.arange(BLOCK) < n_signal
    kept = rng.permutation(np.flatnonzero(passed))
    features = np.column_stack([low[kept], high_level(low[kept])])
    return features / UNITS, label[kept]


def simulate(events: int, *, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Features (events, 28) and labels (events,), both float32; 1 is signal, 0 background.

    The same seed gives the same events, and a longer simulation starts with those of a shorter.
    Raises ValueError if `events` is below 1 or `seed` below 0.
    """
    if events < 1 or seed < 0:
        raise ValueError(
            f"simulate needs at least one event and a seed of at least 0. "
            f"Received: events={events}, seed={seed}."
        )
    x, y = np.empty((events, 28), np.float32), np.empty(events, np.float32)
    filled = number = 0
    while filled < events:
        features, label = _block(seed, number)
        end = min(filled + len(label), events)
        x[filled:end], y[filled:end] = features[: end - filled], label[: end - filled]
        filled, number = end, number + 1
    return x, y
