"""The plan of a launch of the full layer, deaths included: a function of its seed. Pure."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from ci.chaos.ft.plan import KINDS, PHASES
from ci.chaos.training.options import draw_way, takes_spares

__all__ = [
    "EPOCH_STEPS",
    "MODELS",
    "NOISY",
    "SAVE_EVERY",
    "STEPS",
    "VIRTUAL",
    "Start",
    "TrainPlan",
    "draw_training",
    "training_of",
]

EPOCH_STEPS, EPOCHS = 8, 2  # of every training of script.py
STEPS = EPOCH_STEPS * EPOCHS

MODELS = (
    "plain",
    "wide",
    "embedding",
    "two-inputs",
    "weighted",
    "regularized",
    "clipped",
    "custom",
)
#: With a layer of which the numbers follow from how a batch is cut, or that draws.
NOISY = ("dropout", "images", "lstm")
VIRTUAL = 8
OPTIMIZERS = ("sgd", "adam", "nesterov")
MOST_TRAININGS = 10
SAVE_EVERY = 3  # steps, where checkpoints are made
#: When these come, the step has been counted.
BETWEEN_STEPS = ("validation", "checkpoint", "in-consensus")


@dataclass(frozen=True, kw_only=True)
class Start:
    """One start of the ranks, *ranks* that work and *spares* more.

    ``way`` are options of matex run that say how they share the work.
    ``end_all`` is the training, and the batch of its second epoch, after which all who work die.
    """

    ranks: int
    spares: int
    faults: tuple[str, ...]
    way: tuple[str, ...] = ()
    end_all: tuple[int, int] | None = None


@dataclass(frozen=True, kw_only=True)
class TrainPlan:
    """One launch of the full layer, which carries several trainings.

    ``trainings`` are arguments of script.py, ``options`` those of matex run. Training ``i``
    makes the steps from ``16 i`` on, and the faults' steps are these. The second of the
    ``starts``, if there is one, goes on from the checkpoint of the first.
    """

    seed: int
    trainings: tuple[str, ...]
    options: tuple[str, ...]
    starts: tuple[Start, ...]
    checkpoint: bool


def training_of(step: int, at: str = "") -> int:
    """The training of *step*, in which a fault struck at phase *at*."""
    return (step - (at in BETWEEN_STEPS)) // STEPS


def draw_training(seed: int, *, bits: bool = False) -> TrainPlan:
    """Trainings with up to three deaths each, until the ranks are used up.

    Args:
        seed: seed of the launch.
        bits: whether virtual workers share the batches, so that no bit follows from the ranks.
    """
    dice = random.Random(seed)
    restart = dice.random() < 0.25
    checkpoint = restart or dice.random() < 0.2
    trainings: list[str] = []
    starts: list[Start] = []
    for number in range(1 + restart):
        last = dice.randrange(3) if restart and number == 0 else None
        ranks = dice.randint(2, 4) if restart else dice.randint(3, 6)
        way = starts[0].way if starts and dice.random() < 0.5 else draw_way(dice)
        if bits:
            ranks = dice.choice((1, 2, 3, 4, 5, 7, 8))
            way = dice.choice(((), (), ("--balance",)))
        spares = dice.choice((0, 0, 1, 1, 2)) if takes_spares(way) else 0
        guard = dice.randrange(ranks)
        alive = [rank for rank in range(ranks + spares) if rank != guard]
        faults: list[str] = []
        begun = len(trainings) - 1 if number else len(trainings)
        end_all = None
        while alive and begun < MOST_TRAININGS:
            if begun == len(trainings):
                trainings.append(_training(dice, (*MODELS, *NOISY * 3) if bits else MODELS))
            steps = range(begun * STEPS, (begun + 1) * STEPS)
            if begun == last:
                end_all = (begun, dice.randrange(EPOCH_STEPS - 1))
                break
            if starts and begun == len(trainings) - 1 and starts[-1].end_all:
                steps = steps[EPOCH_STEPS + starts[-1].end_all[1] + 1 :]
            whens = _whens(steps, validates=trainings[begun].endswith("yes"), saves=checkpoint)
            lethal = _faults(dice, alive, whens, spares=spares > 0)
            faults += lethal + _harmless(dice, [*alive, guard], steps, often=not lethal)
            begun += 1
        starts.append(
            Start(ranks=ranks, spares=spares, faults=tuple(faults), way=way, end_all=end_all)
        )
        if end_all is None:
            break
    exchange = dice.choice(("native", "native", "host"))
    if any("powersgd:2" in start.way for start in starts):
        exchange = "host"  # the native one has no powersgd
    options = ["--exchange", exchange, "--nonfinite", "recompute"]
    options += dice.choice(([], ["--check-every", "3"]))
    if bits:
        options += ["--deterministic", "--virtual", str(VIRTUAL)]
    return TrainPlan(
        seed=seed, trainings=tuple(trainings), options=tuple(options), starts=tuple(starts),
        checkpoint=checkpoint,
    )  # fmt: skip


def _training(dice: random.Random, models: Sequence[str]) -> str:
    return f"{dice.choice(models)},{dice.choice(OPTIMIZERS)},{dice.choice(('yes', 'no'))}"


def _whens(steps: range, *, validates: bool, saves: bool) -> dict[str, Sequence[int]]:
    """The phases of a training that makes *steps*, and in which of them each comes."""
    ends = [step + 1 for step in steps if (step + 1) % EPOCH_STEPS == 0]
    saved = [step + 1 for step in steps if (step + 1) % SAVE_EVERY == 0] if saves else []
    whens: dict[str, Sequence[int]] = dict.fromkeys((*PHASES, "in-strategy"), steps)
    whens["in-consensus"] = sorted({*ends, *saved})
    if validates:
        whens["validation"] = ends
    if saves:
        whens["checkpoint"] = whens["in-consensus"]
    return whens


def _faults(
    dice: random.Random, alive: list[int], whens: dict[str, Sequence[int]], *, spares: bool
) -> list[str]:
    """Lethal ones for one training, whose victims are taken from *alive*."""
    found: list[str] = []
    steps = whens["compute"]
    phases = [*PHASES, *(phase for phase in whens if phase not in PHASES)]
    step = dice.choice(steps)
    for number in range(min(len(alive), dice.choice((0, 1, 1, 1, 1, 2, 3)))):
        victim = alive.pop(dice.randrange(len(alive)))
        kind = dice.choices(list(KINDS), list(KINDS.values()))[0]
        if kind == "hang":  # ends after its time-out; the ft layer has many of them
            kind = "kill"
        phase, when = dice.choice(phases), step
        if number and dice.random() < 0.6:
            phase = dice.choice(("recovery", "in-exchange")) if spares else "recovery"
        elif spares and dice.random() < 0.35:  # if it waits, it does so in the first step
            phase, when = dice.choice(("compute", "recovery")), steps[0]
        elif phase in BETWEEN_STEPS:
            when = dice.choice(whens[phase])
        found.append(f"{kind}:rank={victim},step={when},at={phase}")
    return found


def _harmless(dice: random.Random, ranks: list[int], steps: range, *, often: bool) -> list[str]:
    """The faults that take nobody."""
    found: list[str] = []
    for text in ("slow:rank={},step={},factor=2,steps=3", "nan:rank={},step={}"):
        if dice.random() < (0.7 if often else 0.15):
            found.append(text.format(dice.choice(ranks), dice.choice(steps)))
    return found
