"""The plan of a launch of the updates layer: kinds of steps and deaths, by its seed. Pure."""

from __future__ import annotations

import random
from dataclasses import dataclass

from ci.chaos.training.plan import Start

__all__ = ["KINDS", "UpdatesPlan", "draw_updates"]

#: Kinds of ``tests/train/scripts/train_kinds.py``.
KINDS = (
    "gan-with-noise", "wasserstein-gan", "cycle-gan", "sharpness-aware", "synchronized",
    "moving-target", "alternating", "autoencoder", "clipped-gan", "clipped-autoencoder",
    "gan-loop", "returned-rows", "graph-loop", "tags", "translation", "several-outputs", "sums",
)  # fmt: skip
_KINDS_OF_A_LAUNCH = 3
_STEPS = 16  # about so many of each kind
_PHASES = ("compute", "before-exchange", "in-exchange", "after-exchange")

# Of a launch: seconds from its start to its first step, and of each kind. A death by the clock
# comes between any two exchanges, or within one.
_BEGIN_S, _KIND_S = 3.5, 2.0


@dataclass(frozen=True, kw_only=True)
class UpdatesPlan:
    seed: int
    kinds: tuple[str, ...]
    start: Start


def draw_updates(seed: int) -> UpdatesPlan:
    """Two to four ranks, of which all but one may die, two at once at times."""
    dice = random.Random(seed)
    ranks = dice.randint(2, 4)
    kinds = tuple(dice.sample(KINDS, _KINDS_OF_A_LAUNCH))
    victims = dice.sample(range(ranks), dice.randint(1, ranks - 1))
    faults: list[str] = []
    when = ""
    for victim in victims:
        if not when or dice.random() < 0.7:  # else with the one before
            when = _when(dice)
        faults.append(f"kill:rank={victim},{when}")
    return UpdatesPlan(
        seed=seed, kinds=kinds, start=Start(ranks=ranks, spares=0, faults=tuple(faults))
    )


def _when(dice: random.Random) -> str:
    if dice.random() < 0.5:
        return f"time={dice.uniform(_BEGIN_S, _BEGIN_S + _KIND_S * _KINDS_OF_A_LAUNCH):.2f}"
    return f"step={dice.randrange(_STEPS * _KINDS_OF_A_LAUNCH)},at={dice.choice(_PHASES)}"
