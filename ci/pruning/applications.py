"""Prune networks as people build them: the ratio is reached, and nothing else changes.

    python -m ci.pruning.applications [NAME ...] [--ratio 0.4]

Of each network of keras.applications, with random weights, so many units are made superfluous, by
zeros where they are read, that *ratio* of the parameters can go with them. Pruning must take these,
and the smaller model must compute what the whole one did, to 1e-9 of the norm of the outputs: that
is in float64, as hundreds of layers with random weights make 1e-5 of another order of sums. Six
more networks, among them transformers whose widths have to shrink, have no superfluous units: what
they lose at that ratio is compared with what was judged. Each smaller model is saved, loaded,
compared and trained on. A line for each; exit status 1 where any is wrong.
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

from ci.pruning.networks import APPLICATIONS, OWN, Built, application, own
from matex import keras_hooks
from matex.apoptosis.allotment import removable_in
from matex.apoptosis.graph.trace import groups_of, trace
from matex.apoptosis.one_shot import prune
from matex.apoptosis.targets import size_of

__all__ = ["Outcome", "prune_application", "prune_own"]

_EXACT = 1e-9

# Of a network's own file in float32; and by how much outputs must differ from row to row at least.
_ROUNDING = 1e-5
_ALIVE = 1e-3

# What may be missing at the end of what was asked of a network of our own.
_MISSING = 0.05

# Of the parameters, beyond the ratio: units go in whole, and not all parameters are of units.
_MARGIN = 0.02


class Outcome(NamedTuple):
    """The outcome of pruning a network; *problem* is "" where nothing is wrong."""

    parameters: int
    gone: float
    difference: float
    """Of the outputs, relative to their norm: before and after."""
    problem: str


def prune_application(name: str, ratio: float, folder: Path) -> Outcome:
    """Prune a network of keras.applications of which *ratio* is superfluous."""
    known, policy = keras.config.floatx(), keras.config.dtype_policy()
    keras.config.set_floatx("float64")
    keras.config.set_dtype_policy("float64")  # the first layer of the process has settled it
    try:
        built = with_superfluous_units(application(name), ratio + _MARGIN)
        return outcome_of(built, ratio, folder, exact=True, criterion="magnitude")
    finally:
        keras.config.set_floatx(known)
        keras.config.set_dtype_policy(policy)


def prune_own(name: str, ratio: float, folder: Path) -> Outcome:
    """Prune one of the six other networks."""
    return outcome_of(own(name), ratio, folder, exact=False, criterion="gram")


def with_superfluous_units(built: Built, share: float) -> Built:
    """*built*, with zeros where so many units are read that with them *share* could go.

    Units that a norm divides by each other are none of them: without some the others change.
    """
    net = trace(built.model)
    normed = {int(r) for norm in net.norms.values() for r in net.units.roots(norm.units)}
    generator = np.random.default_rng(0)
    groups = [group for group in groups_of(net) if not normed & set(group.members.tolist())]
    orders = [generator.permutation(group.members[removable_in(group)]) for group in groups]

    def dead_at(part: float) -> set[int]:
        return {int(u) for order in orders for u in order[: round(part * len(order))]}

    whole = size_of(net, "parameters")
    enough = next(
        part
        for part in np.linspace(0, 1, 51)
        if size_of(net, "parameters", dead_at(part)) <= (1 - share) * whole
    )
    dead = np.array(sorted(dead_at(enough)))
    for reading in net.readings:
        variable, axis, units = reading.kernel
        lives = ~np.isin(net.units.roots(units), dead)
        shape = [1] * len(variable.shape)
        shape[axis] = -1
        variable.assign(np.asarray(variable) * lives.reshape(shape))
    return built


def outcome_of(built: Built, ratio: float, folder: Path, *, exact: bool, criterion: str) -> Outcome:
    """Prune the model of *built*; what is wrong with the smaller one, if anything is.

    Args:
        exact: whether the outputs must be those of before.
        criterion: ``gram`` also takes what a few rows do not tell from superfluous units, so
            where there are fewer rows than units another must choose for *exact*.
    """
    model, rows = built
    settle_statistics(model, rows)
    before = outputs(model, rows)
    parameters = model.count_params()
    model.compile(keras.optimizers.Adam(1e-4), "mse", run_eagerly=True)
    outcome = prune(model, rows, before, ratio=ratio, criterion=criterion)
    after = outputs(model, rows)
    difference = relative(after, before)
    held_out = float(np.mean((after - before)[1::2] ** 2))
    file = folder / "pruned.keras"
    model.save(file)
    problems = {
        "the outputs hardly depend on the rows": relative(before[::-1], before) < _ALIVE,
        f"put back: {outcome.refused}": bool(outcome.refused),
        "too little has gone": outcome.gone < ratio - (0 if exact else _MISSING),
        "far more has gone than asked": outcome.gone > ratio + 0.1,
        "the outputs are not those of before": exact and not difference <= _EXACT,
        f"the loss is {held_out:.6g}, judged {outcome.loss_after:.6g}": not np.isclose(
            held_out, outcome.loss_after, rtol=1e-2, atol=1e-6
        ),
        "the file computes something else": not relative(
            outputs(keras.models.load_model(file), rows), after
        ) <= _ROUNDING,
    }  # fmt: skip
    model.fit(rows[:4], before[:4], verbose=0)
    problems["it does not train"] = not np.isfinite(outputs(model, rows[:4])).all()
    wrong = "; ".join(name for name, is_so in problems.items() if is_so)
    return Outcome(parameters, outcome.gone, difference, wrong)


def settle_statistics(model: Any, rows: np.ndarray) -> None:
    """Give each BatchNormalization the statistics of *rows*, so that no signal dies out."""
    norms = [
        layer
        for layer in keras_hooks.flat_layers(model)
        if isinstance(layer, keras.layers.BatchNormalization)
    ]
    known = [layer.momentum for layer in norms]
    for layer in norms:
        layer.momentum = 0.0
    model(rows, training=True)
    for layer, momentum in zip(norms, known, strict=True):
        layer.momentum = momentum


def outputs(model: Any, rows: np.ndarray) -> np.ndarray:
    """Outputs of *model* for *rows*, without training."""
    return np.asarray(model(rows, training=False))


def relative(some: np.ndarray, others: np.ndarray) -> float:
    """The norm of the difference, relative to that of *others*. Pure."""
    return float(np.linalg.norm(some - others) / np.linalg.norm(others))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="by default all")
    parser.add_argument("--ratio", type=float, default=0.4)
    options = parser.parse_args()
    known = [*OWN, *APPLICATIONS]
    if unknown := set(options.names) - set(known):
        parser.error(f"NAME must be one of {', '.join(known)}. Received: {', '.join(unknown)}")
    wrong = 0
    for name in options.names or known:
        began = time.monotonic()
        keras.backend.clear_session()
        run = prune_own if name in OWN else prune_application
        with tempfile.TemporaryDirectory() as folder:
            try:
                outcome = run(name, options.ratio, Path(folder))
            except Exception as error:  # noqa: BLE001  # each is a finding
                outcome = Outcome(0, 0.0, 0.0, f"{type(error).__name__}: {error}"[:300])
        wrong += bool(outcome.problem)
        print(
            f"{name:20} {outcome.parameters:>12,} parameters, {outcome.gone:.3f} gone, outputs "
            f"changed by {outcome.difference:.1e}, {time.monotonic() - began:4.0f} s "
            f"{outcome.problem or 'ok'}",
            flush=True,
        )
    print(f"{len(options.names or known)} networks at {options.ratio}: {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
