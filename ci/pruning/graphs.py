"""Prune random graphs: the smaller model must load, compute what was judged, and train on.

    python -m ci.pruning.graphs [--count 500] [--first 0] [--seed 0] [--ratios 0.3 0.6]

The graphs are those of tests/train/random_graphs.py: up to three blocks of every kind of layer,
shared ones and nested models among them, a third of them with two inputs and two outputs, with
random weights. Each is pruned at each ratio, saved,
loaded again, compared, and trained for a step; a ratio may be out of a small graph's reach. A line
for each that fails, exit status 1 then, and one after every 25 graphs.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np

from matex.apoptosis.one_shot import prune
from matex.errors import InputError
from tests.train.random_graphs import ENDS, IMAGES, SEQUENCES, build

# Of the norm of the outputs: what another order of summation may change.
ROUNDING = 1e-4
EVERY = 25  # graphs between two lines about what is done

# Keras loads two layers where a wrapper shares one with the graph.
NOT_TO_LOAD = {"both-stepwise"}


class Case(NamedTuple):
    """The parts of which a graph is made."""

    kind: str
    blocks: list[str]
    end: str
    seed: int
    ends: int

    def build(self) -> tuple[Any, Any]:
        """The model, three times as wide as in the tests, and rows for it."""
        return build(self.kind, self.blocks, self.end, self.seed, wide=3, ends=self.ends)


class Outcome(NamedTuple):
    """The outcome of pruning a graph; *problem* is "" where nothing is wrong."""

    gone: float
    refused: tuple[str, ...] = ()
    problem: str = ""


def case_of(number: int, seed: int) -> Case:
    generator = np.random.default_rng([seed, number])
    kind = ("images", "sequences")[number % 2]
    names = sorted((IMAGES if kind == "images" else SEQUENCES).keys() - NOT_TO_LOAD)
    blocks = generator.choice(names, size=int(generator.integers(1, 4))).tolist()
    end, own = str(generator.choice(sorted(ENDS))), int(generator.integers(1 << 30))
    return Case(kind, blocks, end, own, 2 if number % 3 == 2 else 1)


def outputs(model: Any, x: Any) -> list[np.ndarray]:
    """All outputs of *model* for the rows *x*, as arrays."""
    return [np.asarray(part) for part in keras.tree.flatten(model(x, training=False))]


def differs(some: list[np.ndarray], others: list[np.ndarray]) -> bool:
    """Whether outputs differ by more than another order of summation may change. Pure."""
    return any(
        np.linalg.norm(a - b) > ROUNDING * np.linalg.norm(b)
        for a, b in zip(some, others, strict=True)
    )


def outcome_of(case: Case, ratio: float, folder: Path) -> Outcome:
    """Prune the graph of *case*; what is wrong with the smaller model, if anything is."""
    model, x = case.build()
    y = outputs(model, x)
    target = y if len(y) > 1 else y[0]
    model.compile("sgd", "mse")
    outcome = prune(model, x, target, ratio=ratio)
    found = outputs(model, x)
    if [a.shape for a in found] != [a.shape for a in y] or not all(map(finite, found)):
        return Outcome(outcome.gone, outcome.refused, "its outputs are of another kind")
    # The loss of the rows that were held out.
    loss = sum(float(np.mean((a - b)[1::2] ** 2)) for a, b in zip(found, y, strict=True))
    if not np.isclose(loss, outcome.loss_after, rtol=1e-2, atol=1e-6):
        problem = f"its loss is {loss:.6g}, and was judged to be {outcome.loss_after:.6g}"
        return Outcome(outcome.gone, outcome.refused, problem)
    file = folder / "pruned.keras"
    model.save(file)
    if differs(outputs(keras.models.load_model(file), x), found):
        return Outcome(outcome.gone, outcome.refused, "its file computes something else")
    model.fit(x, target, epochs=1, verbose=0)
    return Outcome(outcome.gone, outcome.refused)


def finite(values: np.ndarray) -> bool:
    """Whether all *values* are finite. Pure."""
    return bool(np.isfinite(values).all())


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--first", type=int, default=0, help="number of the first graph")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ratios", type=float, nargs="*", default=[0.3, 0.6])
    options = parser.parse_args()
    began = time.monotonic()
    wrong, refused = 0, 0
    gone: dict[float, list[float]] = {ratio: [] for ratio in options.ratios}
    beyond = dict.fromkeys(options.ratios, 0)
    for number in range(options.first, options.first + options.count):
        case = case_of(number, options.seed)
        for ratio in options.ratios:
            keras.backend.clear_session()
            with tempfile.TemporaryDirectory() as folder:
                try:
                    outcome = outcome_of(case, ratio, Path(folder))
                except InputError as error:
                    if not str(error).startswith("ratio must be at most"):
                        raise
                    beyond[ratio] += 1
                    continue
                except Exception as error:  # noqa: BLE001  # each is a finding
                    outcome = Outcome(0.0, problem=f"{type(error).__name__}: {error}"[:300])
            gone[ratio].append(outcome.gone)
            refused += bool(outcome.refused)
            if outcome.problem or outcome.refused:
                wrong += bool(outcome.problem)
                print(number, ratio, *case, *outcome.refused, outcome.problem, flush=True)
        done = number + 1 - options.first
        if done % EVERY == 0:
            spent = time.monotonic() - began
            print(f"{done} of {options.count} graphs, {spent:.0f} s, {wrong} wrong", flush=True)
    means = ", ".join(
        f"{np.mean(some) if some else 0:.3f} of {ratio} ({beyond[ratio]} out of reach)"
        for ratio, some in gone.items()
    )
    print(
        f"{options.count} graphs, each at {len(options.ratios)} ratios: {wrong} wrong, "
        f"{refused} with units put back; gone on average {means}; "
        f"{time.monotonic() - began:.0f} s"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
