"""What a chaos launch does and who dies in it: a function of its seed. Pure."""

from __future__ import annotations

import random
from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["COLLECTIVES", "LaunchPlan", "TrainPlan", "draw_launch", "draw_training"]

COLLECTIVES = ("allreduce", "allreduce", "allreduce", "broadcast", "allgather", "barrier", "agree")
SIZES = (1, 7, 500, 20_000, 300_000)
PHASES = ("compute", "before-exchange", "in-exchange", "in-exchange", "after-exchange")
KINDS = {"kill": 15, "segv": 2, "exit": 2, "raise": 2, "stop": 1, "hang": 1}


@dataclass(frozen=True, kw_only=True)
class LaunchPlan:
    """One launch of the ft layer, which carries several runs.

    ``runs[i]`` are the operations of a run, (collective, elements); operations are
    numbered through all runs, and the faults' steps are these numbers. The operation
    after the last is the leaving.
    """

    seed: int
    ranks: int
    runs: tuple[tuple[tuple[str, int], ...], ...]
    faults: tuple[str, ...]

    def document(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    def faults_of(self, run: int) -> list[str]:
        """The faults that were planned for the operations of *run*."""
        first = sum(len(operations) for operations in self.runs[:run])
        last = first + len(self.runs[run]) + (run == len(self.runs) - 1)
        return [f for f in self.faults if "step=" not in f or first <= _step(f) < last]


def draw_launch(seed: int, *, most_ranks: int = 16) -> LaunchPlan:
    """2 to *most_ranks* ranks, and runs with one to three faults each until they are used up."""
    dice = random.Random(seed)
    ranks = dice.randint(2, most_ranks)
    alive = list(range(ranks))
    spared = dice.choice((1, 1, 2, 3))
    runs: list[tuple[tuple[str, int], ...]] = []
    faults: list[str] = []
    begin = 0
    while len(alive) > spared or not runs:
        operations = tuple(_operation(dice) for _ in range(dice.randint(3, 12)))
        last = len(alive) - spared
        step = begin + dice.randrange(len(operations))
        for number in range(min(last, dice.choice((1, 1, 2, 3)))):
            victim = alive.pop(dice.randrange(len(alive)))
            faults.append(_fault(dice, victim, step, first=number == 0))
        runs.append(operations)
        begin += len(operations)
    if len(alive) > 1 and dice.random() < 0.3:  # in the leaving
        phase = dice.choice(("compute", "in-exchange"))
        faults.append(f"kill:rank={dice.choice(alive)},step={begin},at={phase}")
    return LaunchPlan(seed=seed, ranks=ranks, runs=tuple(runs), faults=tuple(faults))


def _operation(dice: random.Random) -> tuple[str, int]:
    return dice.choice(COLLECTIVES), dice.choice(SIZES)


def _fault(dice: random.Random, victim: int, step: int, *, first: bool) -> str:
    kind = dice.choices(list(KINDS), list(KINDS.values()))[0]
    if not first and dice.random() < 0.6:
        where = dice.choice((f"step={step},at=recovery", f"step={step},at=recovery", "late"))
        if where == "late":
            return f"{kind}:rank={victim},event=recovered,count={dice.randint(1, 3)}"
        return f"{kind}:rank={victim},{where}"
    phase = dice.choice(PHASES)
    if kind == "hang" and phase == "in-exchange":
        kind = "stop"
    return f"{kind}:rank={victim},step={step},at={phase}"


def _step(fault: str) -> int:
    return int(fault.partition("step=")[2].partition(",")[0])


@dataclass(frozen=True, kw_only=True)
class TrainPlan:
    """One training run of the full layer.

    ``script`` are the arguments of the training script, ``options`` those of matex run;
    ``end_all_at`` is the batch of epoch 1 after which every rank dies, to be restarted
    from the checkpoint.
    """

    seed: int
    ranks: int
    ranks_again: int
    script: tuple[str, ...]
    options: tuple[str, ...]
    faults: tuple[str, ...]
    end_all_at: int | None


MODELS = ("plain", "embedding", "two-inputs", "weighted", "regularized", "clipped", "custom")
OPTIMIZERS = ("sgd", "adam")
TRAIN_PHASES = (*PHASES, "validation", "checkpoint")


def draw_training(seed: int, *, most_ranks: int = 8) -> TrainPlan:
    """2 to *most_ranks* ranks that train a small model through up to four faults."""
    dice = random.Random(seed)
    ranks = dice.choice([n for n in (2, 3, 3, 4, 4, 5, 6, 8) if n <= most_ranks])
    steps = 2 * 8
    alive = list(range(ranks))
    faults: list[str] = []
    for number in range(dice.randint(1, min(4, ranks - 1))):
        victim = alive.pop(dice.randrange(len(alive)))
        step = dice.randrange(steps)
        if number and dice.random() < 0.4:
            step = _step(faults[0])
            faults.append(f"kill:rank={victim},step={step},at=recovery")
            continue
        fault = _fault(dice, victim, step, first=True)
        kind, _, rest = fault.partition(":")
        rest = f"rank={victim},step={step},at={dice.choice(TRAIN_PHASES)}"
        if kind == "hang":  # ends after its time-out; the ft layer has many of them
            kind = "kill"
        faults.append(f"{kind}:{rest}")
    if dice.random() < 0.3:
        faults.append(f"slow:rank={alive[0]},step={dice.randrange(steps)},factor=2,steps=3")
    restart = dice.random() < 0.25
    model = dice.choice(MODELS)
    validate = model != "two-inputs" and dice.random() < 0.5  # the script validates on one input
    return TrainPlan(
        seed=seed,
        ranks=ranks,
        ranks_again=dice.randint(1, min(4, most_ranks)),
        script=(
            *("--kind", model, "--optimizer", dice.choice(OPTIMIZERS)),
            *("--samples", "1000", "--epochs", "2"),
            *(("--validate",) if validate else ()),
        ),
        options=("--exchange", dice.choice(("native", "native", "host"))),
        faults=tuple(faults),
        end_all_at=dice.randrange(7) if restart else None,
    )
