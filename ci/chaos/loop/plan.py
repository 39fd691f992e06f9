"""The plan of a launch of the loop layer, its sums and its deaths: a function of its seed."""

from __future__ import annotations

import random

from ci.chaos.ft.launch import Verdict, execute
from ci.chaos.ft.plan import PHASES, LaunchPlan

__all__ = ["draw_loop", "runs_of"]

RANKS = 8
OPERATIONS = 100
SIZES = (1, 100, 20_000, 100_000)  # float64; the last takes several calls of MPI


def runs_of(seed: int) -> list[Verdict]:
    """Make the launch of *seed*, which is one run."""
    return execute(draw_loop(seed), "ci.chaos.loop.rank")


def draw_loop(seed: int) -> LaunchPlan:
    """Eight ranks, and one to seven deaths among them. Pure."""
    dice = random.Random(seed)
    size = dice.choice(SIZES)
    guard = dice.randrange(RANKS)
    victims = dice.sample([rank for rank in range(RANKS) if rank != guard], dice.randint(1, 7))
    faults = [
        f"kill:rank={victim},step={dice.randrange(OPERATIONS)},at={dice.choice(PHASES)}"
        for victim in victims
    ]
    return LaunchPlan(
        seed=seed, ranks=RANKS, runs=((("allreduce", size),) * OPERATIONS,),
        faults=tuple(faults), working=(0,), guard=guard,
    )  # fmt: skip
