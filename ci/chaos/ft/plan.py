"""The plan of a launch of the ft layer, deaths included: a function of its seed. Pure."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["COLLECTIVES", "KINDS", "PHASES", "LaunchPlan", "draw_launch"]

COLLECTIVES = ("allreduce", "allreduce", "allreduce", "broadcast", "allgather", "barrier", "agree")
SIZES = (1, 7, 500, 20_000, 300_000)
PHASES = ("compute", "before-exchange", "in-exchange", "in-exchange", "after-exchange")
#: Where some wait: while members are set aside, in a run's first operation, or called back, in its
#: last, and ("checkpoint") while those who come back receive what they missed.
CHANGES = ("recovery", "validation", "checkpoint")
#: Of a spare that has just become a member: at once, while it gets the state, in its first work.
JOINED = ("", ",at=checkpoint", ",at=compute", ",at=in-exchange", ",at=recovery")
KINDS = {"kill": 15, "segv": 2, "exit": 2, "raise": 2, "stop": 1, "hang": 1}


@dataclass(frozen=True, kw_only=True)
class LaunchPlan:
    """One launch of the ft layer, which carries several runs.

    ``runs[i]`` are the operations of a run, (collective, elements); operations are
    numbered through all runs, and the faults' steps are these numbers. The operation
    after the last is the leaving.

    In run ``i`` all but ``working[i]`` members wait as spares, 0: none. *guard* is always
    among those who work, and no fault strikes it: when all of them are dead nobody can tell a
    spare where to begin.
    """

    seed: int
    ranks: int
    runs: tuple[tuple[tuple[str, int], ...], ...]
    faults: tuple[str, ...]
    working: tuple[int, ...]
    guard: int = 0

    def document(self) -> dict[str, Any]:
        """The document that JSON writes."""
        return asdict(self)


def draw_launch(seed: int, *, most_ranks: int = 16) -> LaunchPlan:
    """2 to *most_ranks* ranks, and runs with one to three faults each until they are used up."""
    dice = random.Random(seed)
    ranks = dice.randint(dice.choice((2, 2, most_ranks // 2)), most_ranks)
    spares = ranks > 2 and dice.random() < 0.75
    guard = dice.randrange(min(4, ranks - 1))
    alive = [rank for rank in range(ranks) if rank != guard]
    spared = dice.choice((0, 0, 1, 2))
    runs: list[tuple[tuple[str, int], ...]] = []
    working: list[int] = []
    faults: list[str] = []
    begin = 0
    while len(alive) > spared or not runs:
        operations = tuple(_operation(dice) for _ in range(dice.randint(3, 12)))
        aside = dice.choice((0, 1, 1, 2, 2, 3, 5)) if spares else 0
        working.append(max(guard + 1, len(alive) + 1 - aside) if aside else 0)
        phases: Sequence[str] = PHASES
        when = range(len(operations))
        if aside and dice.random() < 0.3:
            phases, when = CHANGES, when[:: len(when) - 1]
        step = begin + dice.choice(when)
        last = len(alive) - spared
        for number in range(min(last, dice.choice((1, 1, 1, 2, 3)))):
            victim = alive.pop(dice.randrange(len(alive)))
            faults.append(_fault(dice, victim, step, phases, number=number, spares=aside > 0))
        runs.append(operations)
        begin += len(operations)
    if alive and dice.random() < 0.3:  # in the leaving
        phase = dice.choice(("compute", "in-exchange"))
        faults.append(f"kill:rank={dice.choice(alive)},step={begin},at={phase}")
    return LaunchPlan(
        seed=seed, ranks=ranks, runs=tuple(runs), faults=tuple(faults),
        working=tuple(working), guard=guard,
    )  # fmt: skip


def _operation(dice: random.Random) -> tuple[str, int]:
    return dice.choice(COLLECTIVES), dice.choice(SIZES)


def _fault(
    dice: random.Random,
    victim: int,
    step: int,
    phases: Sequence[str] = PHASES,
    *,
    number: int = 0,
    spares: bool = False,
) -> str:
    """One more fault in *step*, after *number* others: often in the recovery from them."""
    kind = dice.choices(list(KINDS), list(KINDS.values()))[0]
    if number and dice.random() < 0.6:
        where = dice.choice(("recovery", "recovery", "late", *(("joining",) * 2 * spares)))
        if where == "recovery":
            return f"{kind}:rank={victim},step={step},at=recovery"
        if where == "late":
            return f"{kind}:rank={victim},event=recovered,count={dice.randint(1, 3)}"
        if dice.random() < 0.5:
            return _by_call(kind, f"rank={victim},step={step},at=checkpoint")
        return _by_call(kind, f"rank={victim},event=resumed{dice.choice(JOINED)}")
    return _by_call(kind, f"rank={victim},step={step},at={dice.choice(phases)}")


def _by_call(kind: str, when: str) -> str:
    """A fault that strikes inside a call of MPI cannot be a hang of the rank's own code."""
    inside = when.endswith(("in-exchange", "checkpoint", "validation"))
    return f"{'stop' if kind == 'hang' and inside else kind}:{when}"
