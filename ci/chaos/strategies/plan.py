"""The strategies layer: vectors moved by the strategies of matex, no TensorFlow."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from ci.chaos.ft.launch import Verdict, execute
from ci.chaos.ft.plan import KINDS, PHASES, LaunchPlan
from ci.chaos.training.options import STRATEGIES

__all__ = ["MEET_EVERY", "MovesPlan", "draw_moves", "runs_of"]

#: Elements of a vector: of some messages wait for their receivers.
SIZES = (5, 700, 60_000)
#: Where a rank can be struck when it has completed an operation, and how often others are late.
CUT = {"after-exchange": 0.9, "in-strategy": 0.3, "in-consensus": 0.6}
#: Steps from one consensus to the next.
MEET_EVERY = 8


@dataclass(frozen=True, kw_only=True)
class Cut:
    """A death that some hear of before they know that the operation was complete.

    Its victim is struck when it has completed the *count*-th operation of *phase* in *step*, which
    fails on the ranks of *late*, as where a peer that is ahead revokes the communicator.
    """

    step: int
    phase: str
    count: int
    victim: int
    late: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class MovesPlan(LaunchPlan):
    """One launch of the strategies layer; each of its runs is a fit, each operation a step.

    ``ways[i]`` is the strategy of run ``i``, in words of matex run, and ``sizes[i]`` how many
    elements its vector has. A fault at in-strategy or in-consensus strikes rank ``r`` after
    ``moments[r]`` of what it does there: making a message, waiting for one, having one, or
    beginning an operation. 0: at any time in it.
    """

    ways: tuple[str, ...]
    sizes: tuple[int, ...]
    moments: tuple[int, ...]
    cuts: tuple[Cut, ...]


def runs_of(seed: int) -> list[Verdict]:
    """Make the launch of *seed*; one verdict a run."""
    plan = draw_moves(seed)
    return [
        replace(verdict, title=f"{verdict.title}, {way} of {size}")
        for verdict, way, size in zip(
            execute(plan, "ci.chaos.strategies.rank"), plan.ways, plan.sizes, strict=True
        )
    ]


def draw_moves(seed: int) -> MovesPlan:
    """2 to 9 ranks, and fits with one to three faults each until one rank, or a few, are left."""
    dice = random.Random(seed)
    ranks = dice.randint(2, 9)
    guard = dice.randrange(ranks)
    alive = [rank for rank in range(ranks) if rank != guard]
    spared = dice.choice((0, 0, 0, 1, 2))
    runs: list[tuple[tuple[str, int], ...]] = []
    ways: list[str] = []
    faults: list[str] = []
    cuts: list[Cut] = []
    begin = 0
    while len(alive) > spared or not runs:
        words, every = dice.choice(STRATEGIES)
        ways.append(f"{words} --sync-every {dice.choice(every)}" if every else words)
        steps = dice.randint(MEET_EVERY, 5 * MEET_EVERY)
        runs.append(tuple(("allreduce", dice.choice((1, 500))) for _ in range(steps)))
        step = begin + dice.randrange(steps)
        victims = [
            alive.pop(dice.randrange(len(alive)))
            for _ in range(min(len(alive) - spared, dice.choice((1, 1, 1, 2, 3))))
        ]
        for number, victim in enumerate(victims):
            near = min(step + dice.choice((0, 0, 0, 1, 2)) * (number > 0), begin + steps - 1)
            phase = _phase(dice, again=number > 0)
            if phase == "in-consensus":  # the next one
                meeting = begin + ((near - begin) // MEET_EVERY + 1) * MEET_EVERY
                near = min(begin + steps, meeting) - 1
            faults.append(f"{_kind(dice, phase)}:rank={victim},step={near},at={phase}")
            if dice.random() < CUT.get(phase, 0.0):
                late = tuple(
                    rank for rank in range(ranks) if rank != victim and dice.random() < 0.4
                )
                count = 1 if phase == "after-exchange" else dice.randint(1, 3)
                cuts.append(Cut(step=near, phase=phase, count=count, victim=victim, late=late))
        begin += steps
    return MovesPlan(
        seed=seed, ranks=ranks, runs=tuple(runs), faults=tuple(faults), guard=guard,
        working=(0,) * len(runs), ways=tuple(ways),
        sizes=tuple(dice.choice(SIZES) for _ in runs),
        moments=tuple(dice.choice((0, 0, *range(1, 13))) for _ in range(ranks)),
        cuts=tuple(cuts),
    )  # fmt: skip


def _phase(dice: random.Random, *, again: bool) -> str:
    if again and dice.random() < 0.3:
        return "recovery"
    return dice.choice(
        (*PHASES, *("after-exchange",) * 4, *("in-strategy",) * 6, *("in-consensus",) * 4)
    )


def _kind(dice: random.Random, phase: str) -> str:
    kind = dice.choices(list(KINDS), list(KINDS.values()))[0]
    return "stop" if kind == "hang" and phase.startswith("in-") else kind
