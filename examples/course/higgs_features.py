"""The 28 features of the HIGGS benchmark: names, order, and the formulas of the high-level ones.

A four-vector is a float64 array (..., 4) of (E, px, py, pz), all in GeV with c = 1. Reconstructed
jets, leptons and neutrinos count as massless, so that the 7 high-level features are functions of
the 21 low-level ones: lepton (pT, eta, phi), missing transverse momentum (magnitude, phi), and the
four leading jets (pT, eta, phi, b tag) each.
"""

import numpy as np

W_MASS, TOP_MASS = 80.4, 172.5  # GeV

_JETS = [f"jet_{i}_{part}" for i in range(1, 5) for part in ("pt", "eta", "phi", "b-tag")]
LOW_LEVEL = (
    *("lepton_pT", "lepton_eta", "lepton_phi"),
    *("missing_energy_magnitude", "missing_energy_phi"),
    *_JETS,
)
HIGH_LEVEL = ("m_jj", "m_jjj", "m_lv", "m_jlv", "m_bb", "m_wbb", "m_wwbb")
FEATURES = LOW_LEVEL + HIGH_LEVEL  # the order of the columns in the UCI file, after the label


def invariant_mass(p: np.ndarray) -> np.ndarray:
    """Mass (...,) in GeV of four-vectors (..., 4); rounding below zero counts as zero."""
    square = p[..., 0] ** 2 - (p[..., 1:] ** 2).sum(axis=-1)
    mass: np.ndarray = np.sqrt(np.maximum(square, 0.0))
    return mass


def four_vector(pt: np.ndarray, eta: np.ndarray, phi: np.ndarray) -> np.ndarray:
    """Massless four-vectors (..., 4) of transverse momentum (GeV), pseudorapidity, azimuth."""
    parts = (pt * np.cosh(eta), pt * np.cos(phi), pt * np.sin(phi), pt * np.sinh(eta))
    return np.stack(parts, axis=-1)


def cylindrical(p: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(pT in GeV, pseudorapidity, azimuth in -pi..pi), each (...,), of four-vectors (..., 4)."""
    pt = np.hypot(p[..., 1], p[..., 2])
    eta = np.arcsinh(p[..., 3] / np.maximum(pt, 1e-9))
    return pt, eta, np.arctan2(p[..., 2], p[..., 1])


def neutrino_pz(lepton: np.ndarray, missing_x: np.ndarray, missing_y: np.ndarray) -> np.ndarray:
    """Longitudinal momentum (n,) in GeV that gives lepton (n, 4) and neutrino the mass of the W.

    With mu = m_W^2 / 2 + pT(l) . pT(v) the condition is a quadratic equation:
        pz = (mu pz(l) +- E(l) sqrt(mu^2 - pT(l)^2 pT(v)^2)) / pT(l)^2.
    Of two solutions the smaller in size is taken. Without a real one the transverse mass is above
    m_W; then the neutrino gets the lepton's pseudorapidity, which brings the mass closest to m_W.
    """
    lepton_pt2 = lepton[:, 1] ** 2 + lepton[:, 2] ** 2
    missing = np.hypot(missing_x, missing_y)
    mu = W_MASS**2 / 2 + lepton[:, 1] * missing_x + lepton[:, 2] * missing_y
    square = mu**2 - lepton_pt2 * missing**2
    centre = mu * lepton[:, 3]
    spread = lepton[:, 0] * np.sqrt(np.maximum(square, 0.0))
    nearer = (centre - np.copysign(spread, centre)) / lepton_pt2
    alongside = missing * lepton[:, 3] / np.sqrt(lepton_pt2)
    pz: np.ndarray = np.where(square >= 0, nearer, alongside)
    return pz


def high_level(low: np.ndarray) -> np.ndarray:
    """The seven masses (n, 7) in GeV from low-level features (n, 21) in GeV and radians.

    The two jets with the highest b tag (at equal tags the harder jet) are the b candidates, the
    other two make the hadronic W. m_jjj and m_jlv are the hadronic and the leptonic W with one b
    each, so paired that both come nearest to the top quark's mass. m_wbb is the larger of the two
    masses of both b with one W. In the UCI file the same choices come closest.
    """
    lepton = four_vector(low[:, 0], low[:, 1], low[:, 2])
    missing, azimuth = low[:, 3], low[:, 4]
    missing_x, missing_y = missing * np.cos(azimuth), missing * np.sin(azimuth)
    pz = neutrino_pz(lepton, missing_x, missing_y)
    neutrino = np.column_stack([np.hypot(missing, pz), missing_x, missing_y, pz])

    jets = low[:, 5:].reshape(len(low), 4, 4)
    order = np.lexsort((-jets[..., 0], -jets[..., 3]), axis=-1)
    jets = np.take_along_axis(jets, order[..., None], axis=1)
    momenta = four_vector(jets[..., 0], jets[..., 1], jets[..., 2])
    b1, b2 = momenta[:, 0], momenta[:, 1]
    hadronic, leptonic = momenta[:, 2] + momenta[:, 3], lepton + neutrino

    tops = np.array(
        [
            [invariant_mass(hadronic + b1), invariant_mass(leptonic + b2)],
            [invariant_mass(hadronic + b2), invariant_mass(leptonic + b1)],
        ]
    )
    distance = ((tops - TOP_MASS) ** 2).sum(axis=1)
    m_jjj, m_jlv = np.where(distance[0] <= distance[1], tops[0], tops[1])
    pair = b1 + b2
    m_wbb = np.maximum(invariant_mass(hadronic + pair), invariant_mass(leptonic + pair))
    return np.column_stack(
        [
            invariant_mass(hadronic),
            m_jjj,
            invariant_mass(leptonic),
            m_jlv,
            invariant_mass(pair),
            m_wbb,
            invariant_mass(hadronic + leptonic + pair),
        ]
    )
