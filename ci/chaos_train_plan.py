"""What a launch of the full layer trains and who dies in it: a function of its seed. Pure."""

from __future__ import annotations

import random
from dataclasses import dataclass

from chaos_plan import KINDS, PHASES

__all__ = ["EPOCH_STEPS", "STEPS", "Start", "TrainPlan", "draw_training", "training_of"]

EPOCH_STEPS, EPOCHS = 8, 2  # of every training of chaos_train.py
STEPS = EPOCH_STEPS * EPOCHS

MODELS = ("plain", "embedding", "two-inputs", "weighted", "regularized", "clipped", "custom")
MOST_TRAININGS = 10


@dataclass(frozen=True, kw_only=True)
class Start:
    """One start of the ranks, *ranks* that work and *spares* more.

    ``end_all`` is the training, and the batch of its second epoch, after which all who work die.
    """

    ranks: int
    spares: int
    faults: tuple[str, ...]
    end_all: tuple[int, int] | None = None


@dataclass(frozen=True, kw_only=True)
class TrainPlan:
    """One launch of the full layer, which carries several trainings.

    ``trainings`` are arguments of chaos_train.py, ``options`` those of matex run. Training ``i``
    makes the steps from ``16 i`` on, and the faults' steps are these. The second of the
    ``starts``, if there is one, goes on from the checkpoint of the first.
    """

    seed: int
    trainings: tuple[str, ...]
    options: tuple[str, ...]
    starts: tuple[Start, ...]
    checkpoint: bool


def training_of(step: int, at: str = "") -> int:
    """The training of *step*; validation and checkpoints come when the step has been counted."""
    return (step - (at in ("validation", "checkpoint"))) // STEPS


def draw_training(seed: int) -> TrainPlan:
    """Trainings with up to three deaths each, until the ranks are used up."""
    dice = random.Random(seed)
    restart = dice.random() < 0.25
    checkpoint = restart or dice.random() < 0.2
    trainings: list[str] = []
    starts: list[Start] = []
    for number in range(1 + restart):
        last = dice.randrange(3) if restart and number == 0 else None
        ranks = dice.randint(2, 4) if restart else dice.randint(3, 6)
        spares = dice.choice((0, 0, 1, 1, 2))
        guard = dice.randrange(ranks)
        alive = [rank for rank in range(ranks + spares) if rank != guard]
        faults: list[str] = []
        begun = len(trainings) - 1 if number else len(trainings)
        end_all = None
        while alive and begun < MOST_TRAININGS:
            if begun == len(trainings):
                trainings.append(_training(dice))
            steps = range(begun * STEPS, (begun + 1) * STEPS)
            if begun == last:
                end_all = (begun, dice.randrange(EPOCH_STEPS - 1))
                break
            if starts and begun == len(trainings) - 1 and starts[-1].end_all:
                steps = steps[EPOCH_STEPS + starts[-1].end_all[1] + 1 :]
            at_ends = ["validation"] * trainings[begun].endswith("yes")
            at_ends += ["checkpoint"] * checkpoint
            lethal = _faults(dice, alive, steps, at_ends=at_ends, spares=spares > 0)
            faults += lethal + _harmless(dice, [*alive, guard], steps, often=not lethal)
            begun += 1
        starts.append(Start(ranks=ranks, spares=spares, faults=tuple(faults), end_all=end_all))
        if end_all is None:
            break
    options = ["--exchange", dice.choice(("native", "native", "host")), "--nonfinite", "recompute"]
    options += dice.choice(([], ["--check-every", "3"]))
    return TrainPlan(
        seed=seed, trainings=tuple(trainings), options=tuple(options), starts=tuple(starts),
        checkpoint=checkpoint,
    )  # fmt: skip


def _training(dice: random.Random) -> str:
    return f"{dice.choice(MODELS)},{dice.choice(('sgd', 'adam'))},{dice.choice(('yes', 'no'))}"


def _faults(
    dice: random.Random, alive: list[int], steps: range, *, at_ends: list[str], spares: bool
) -> list[str]:
    """Lethal ones for one training, whose victims are taken from *alive*."""
    found: list[str] = []
    step = dice.choice(steps)
    for number in range(min(len(alive), dice.choice((0, 1, 1, 1, 1, 2, 3)))):
        victim = alive.pop(dice.randrange(len(alive)))
        kind = dice.choices(list(KINDS), list(KINDS.values()))[0]
        if kind == "hang":  # ends after its time-out; the ft layer has many of them
            kind = "kill"
        phase, when = dice.choice((*PHASES, *at_ends)), step
        if number and dice.random() < 0.6:
            phase = dice.choice(("recovery", "in-exchange")) if spares else "recovery"
        elif spares and dice.random() < 0.35:  # if it waits, it does so in the first step
            phase, when = dice.choice(("compute", "recovery")), steps[0]
        elif phase in at_ends:
            when = dice.choice([s + 1 for s in steps if (s + 1) % EPOCH_STEPS == 0])
        found.append(f"{kind}:rank={victim},step={when},at={phase}")
    return found


def _harmless(dice: random.Random, ranks: list[int], steps: range, *, often: bool) -> list[str]:
    """Those that take nobody."""
    found: list[str] = []
    for text in ("slow:rank={},step={},factor=2,steps=3", "nan:rank={},step={}"):
        if dice.random() < (0.7 if often else 0.15):
            found.append(text.format(dice.choice(ranks), dice.choice(steps)))
    return found
