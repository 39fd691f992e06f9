"""Pruning a trained model in one shot, with the engine of :mod:`matex.apoptosis`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import keras
import numpy as np

import matex.data
from matex.apoptosis.allotment import mortal_in
from matex.apoptosis.criteria import CRITERIA
from matex.apoptosis.event import Options, Outcome, hold_event
from matex.apoptosis.forward import Forward
from matex.apoptosis.judge import Judge
from matex.apoptosis.network import Network
from matex.apoptosis.peers import Alone
from matex.apoptosis.proof import Probe
from matex.apoptosis.samples import sample_of
from matex.apoptosis.schedule import Mode, Thresholds
from matex.apoptosis.targets import MEASURES, Goal, size_of
from matex.apoptosis.trace import groups_of, trace
from matex.errors import InputError

__all__ = ["prune", "prune_file"]

# Layers that a message names.
_NAMED = 5


def prune(
    model: Any,
    x: Any,
    y: Any = None,
    *,
    ratio: float,
    target: str = "parameters",
    criterion: str = "gram",
    exclude: tuple[str, ...] = (),
    samples: int = 2048,
) -> Outcome:
    """Remove so many units from *model*, in place, that *ratio* of its *target* is gone; local.

    Args:
        x, y: rows to measure activations on, and, of a compiled model, the loss.

    Raises:
        InputError: an argument is wrong.
        Unsupported: the model cannot be followed.
    """
    for name, value, known in (
        ("criterion", criterion, CRITERIA),
        ("target", target, MEASURES),
    ):
        if value not in known:
            raise InputError(
                f"{name} must be one of {', '.join(known)}. Received: {name}={value!r}"
            )
    if not 0 < ratio < 1:
        raise InputError(f"ratio must be between 0 and 1. Received: ratio={ratio}")
    net = trace(model, exclude=exclude)
    _must_be_reachable(net, target, ratio)
    sample = sample_of({"x": x, "y": y}, samples)
    goal = Goal(target, (1 - ratio) * size_of(net, target))
    return hold_event(
        model,
        Options(criterion=criterion, exclude=exclude),
        Thresholds(Mode(1.0, np.inf)),
        scoring=sample,
        judge=Judge(sample, Forward(model)),
        peers=Alone(),
        goal=goal,
        reaches=True,
    )


def _must_be_reachable(net: Network, target: str, ratio: float) -> None:
    """Raise InputError where what must stay of each group is more than *ratio* leaves."""
    groups = groups_of(net)
    dead = {int(unit) for group in groups for unit in group.members[mortal_in(group)]}
    most = 1 - size_of(net, target, dead) / size_of(net, target)
    if ratio <= most:
        return
    stays = "; ".join(f"{layer} ({why})" for layer, why in list(net.left_alone.items())[:_NAMED])
    others = len(net.left_alone) - _NAMED
    raise InputError(
        f"ratio must be at most {np.floor(100 * most) / 100:.2f} of the {target} of this model, "
        f"whose layers keep 8 units each. Received: ratio={ratio}"
        + (f"; left alone: {stays}" if stays else "")
        + (f", and {others} more layers" if others > 0 else "")
    )


def prune_file(
    source: Path, out: Path, *, data: Path | None, ratio: float, force: bool, **options: Any
) -> str:
    """Prune the model in *source* into *out*, whole or not at all; the line to print.

    The file is loaded again before it takes its name, and must hold the same model.

    Raises:
        InputError: a file cannot be used, or an argument is wrong.
    """
    if not source.is_file():
        raise InputError(f"a .keras file is wanted. Received: {source}, which is no file")
    if out.exists() and not force:
        raise InputError(f"{out} exists; give --force to replace it, or another --out")
    if out.suffix != ".keras":
        raise InputError(f"the result must be named *.keras. Received: {out}")
    if data is None:
        raise InputError("--data, a file with rows to look at, is wanted. Received: none")
    x, y = _rows(data)
    try:
        model = keras.models.load_model(source)
    except (ValueError, OSError, TypeError) as error:
        reason = str(error).partition("\n")[0]
        raise InputError(f"{source} cannot be loaded as a Keras model: {reason}") from error
    outcome = prune(model, x, y, ratio=ratio, **options)
    aside = out.with_name(f".{os.getpid()}-{out.name}")
    probe = Probe(model, sample_of({"x": x, "y": y}, 1))
    try:
        model.save(aside)
        _must_load(aside, probe)
        aside.replace(out)
    finally:
        aside.unlink(missing_ok=True)
    widths = ", ".join(f"{c.layer} {c.units_from} -> {c.units_to}" for c in outcome.changes)
    before, after = outcome.parameters
    return (
        f"{out}: parameters {before:,} -> {after:,}, FLOPs {outcome.flops[0]:.3g} -> "
        f"{outcome.flops[1]:.3g}, loss {outcome.loss_before:.4f} -> {outcome.loss_after:.4f}; "
        f"{widths or 'nothing to remove'}"
    )


def _must_load(file: Path, probe: Probe) -> None:
    """Raise InputError where *file* does not give back the model that was saved."""
    try:
        wrong = probe.complaint(keras.models.load_model(file))
    except (ValueError, OSError, TypeError) as error:
        wrong = f"it cannot be loaded: {str(error).partition(chr(10))[0]}"
    if wrong:
        raise InputError(
            "a fault of matex: the file of the smaller model would not hold it, so none was "
            f"written; {wrong}. Leave layers out with --exclude NAME until it can"
        )


def _rows(path: Path) -> tuple[Any, Any]:
    found = matex.data.open(path)
    for names in (("x_train", "y_train"), ("x", "y")):
        if all(hasattr(found, name) for name in names):
            x, y = (getattr(found, name) for name in names)
            return x, y
    raise InputError(f"{path} must hold x_train and y_train, or x and y. Received: other names")
