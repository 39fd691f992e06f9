"""Pruning of a trained model in one shot, by :mod:`matex.apoptosis`."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from matex import keras_hooks
from matex.apoptosis.allotment import removable_in
from matex.apoptosis.criteria.measure import rows_wanted
from matex.apoptosis.criteria.table import CRITERIA
from matex.apoptosis.cut.proof import Probe
from matex.apoptosis.event import hold_event
from matex.apoptosis.event_text import left_alone, table_of
from matex.apoptosis.graph.forward import Forward
from matex.apoptosis.graph.network import Network
from matex.apoptosis.graph.trace import groups_of, trace
from matex.apoptosis.held_out_loss import HeldOutLoss
from matex.apoptosis.one_shot_rows import must_be_finite, must_have_loss, rows_of
from matex.apoptosis.outcome import Outcome
from matex.apoptosis.peers import Alone
from matex.apoptosis.samples import Sample, sample_of
from matex.apoptosis.schedule import Mode, Thresholds
from matex.apoptosis.targets import MEASURES, Goal, size_of
from matex.apoptosis.trial import Options
from matex.errors import InputError, Unsupported
from matex.keras_hooks.error_text import reason_of

__all__ = ["Pruned", "prune", "prune_file"]

# Layers that a message names.
_NAMED = 5


class Pruned(NamedTuple):
    """The result of pruning a model."""

    outcome: Outcome
    moved: float
    """The norm of the change of the outputs, relative to theirs, on rows held out."""
    rows: tuple[int, int]
    """That were measured on, and that were held out."""
    wanted: int
    """Rows to measure on that would do."""


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
    """Remove units from *model*, in place, until *ratio* of its *target* is removed; local.

    Of the rows every other is held out: the losses of the outcome are on these.

    Args:
        x, y: rows to measure activations on, and, of a compiled model, the loss.
        samples: rows to measure on, and to hold out, at most.

    Raises:
        InputError: an argument is wrong, or the ratio cannot be reached.
        Unsupported: the model cannot be followed.
    """
    return _pruned(
        model, x, y, Goal(target, ratio), criterion=criterion, exclude=exclude, samples=samples
    ).outcome


def _pruned(
    model: Any,
    x: Any,
    y: Any,
    asked: Goal,
    *,
    criterion: str,
    exclude: tuple[str, ...],
    samples: int,
) -> Pruned:
    """Prune to *asked*, the fraction of a size that must be removed."""
    target, ratio = asked
    for name, value, known in (
        ("criterion", criterion, tuple(CRITERIA)),
        ("target", target, MEASURES),
    ):
        if value not in known:
            raise InputError(
                f"{name} must be one of {', '.join(known)}. Received: {name}={value!r}"
            )
    if not 0 < ratio < 1:
        raise InputError(f"ratio must be between 0 and 1. Received: ratio={ratio}")
    if samples < 1:
        raise InputError(f"samples must be at least 1. Received: samples={samples}")
    net = trace(model, exclude=exclude)
    _must_be_reachable(net, target, ratio)
    scoring, held_out = _split(x, y, samples)
    must_be_finite(model, [scoring, held_out])
    must_have_loss(model, held_out)
    wanted = rows_wanted(net, groups_of(net))
    before = _outputs(model, held_out)
    outcome = hold_event(
        model,
        Options(criterion=criterion, exclude=exclude),
        Thresholds(Mode(1.0, np.inf)),
        scoring=scoring,
        held_out=HeldOutLoss(held_out, Forward(model)),
        peers=Alone(),
        goal=Goal(target, (1 - ratio) * size_of(net, target)),
        reaches=True,
    )
    after = _outputs(model, held_out)
    norm = max(float(np.linalg.norm(before)), 1e-30)
    moved = float(np.linalg.norm(after - before)) / norm
    return Pruned(outcome, moved, (scoring.size, held_out.size), wanted)


def _split(x: Any, y: Any, samples: int) -> tuple[Sample, Sample]:
    """Rows to measure on, and as many held-out rows between them."""
    whole = sample_of({"x": x, "y": y}, 1).of
    count = max(1, min(samples, whole // 2))
    return tuple(sample_of({"x": x, "y": y}, count, offset=offset) for offset in (0.0, 0.5))  # type: ignore[return-value]


def _outputs(model: Any, sample: Sample) -> np.ndarray:
    """All outputs for the rows of *sample*, concatenated, float64."""
    leaves = [
        np.ravel(np.asarray(leaf, np.float64))
        for batch in sample.batches([(0, sample.size)])
        for leaf in tf.nest.flatten(model(batch[0], training=False))
    ]
    return np.concatenate(leaves)


def _must_be_reachable(net: Network, target: str, ratio: float) -> None:
    """Raise InputError if the kept units of groups exceed the size that *ratio* leaves."""
    groups = groups_of(net)
    removed = {int(unit) for group in groups for unit in group.members[removable_in(group)]}
    most = 1 - size_of(net, target, removed) / size_of(net, target)
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
    source: Path, out: Path, *, data: Path, ratio: float, force: bool, **options: Any
) -> list[str]:
    """Prune the model in *source* into *out*, whole or not at all; the lines to print.

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
    if not out.parent.is_dir():
        raise InputError(f"an existing folder for the result is wanted. Received: {out.parent}")
    model = _loaded(source)
    x, y = rows_of(data, model)
    target = options.pop("target")
    parameters = {layer.name: layer.count_params() for layer in keras_hooks.flat_layers(model)}
    try:
        pruned = _pruned(model, x, y, Goal(target, ratio), **options)
    except Unsupported as error:
        raise InputError(str(error)) from error
    aside = out.with_name(f".{os.getpid()}-{out.name}")
    probe = Probe(model, sample_of({"x": x, "y": y}, 1))
    try:
        model.save(aside)
        _must_load(aside, probe)
        aside.replace(out)
    except OSError as error:
        raise InputError(f"{out} cannot be written: {error.strerror or error}") from error
    finally:
        aside.unlink(missing_ok=True)
    return _told(out, pruned, Goal(target, ratio), parameters)


def _loaded(source: Path) -> Any:
    if source.suffix == ".keras" and not zipfile.is_zipfile(source):
        size = source.stat().st_size
        raise InputError(f"a whole .keras file is wanted. Received: {source}, {size:,} bytes")
    try:
        model = keras.models.load_model(source)
    except (ValueError, OSError, TypeError) as error:
        reason = reason_of(error)
        reason = reason.rstrip(".")
        way = "; --import names the module that registers it" if "locate" in reason else ""
        raise InputError(f"{source} cannot be loaded as a Keras model: {reason}{way}") from error
    if not keras_hooks.is_graph(model):
        raise InputError(
            f"{source} must hold a functional or sequential model. Received: a "
            f"{type(model).__name__}, whose class makes its layers at their first sizes whenever "
            "it is loaded; save keras.Model(inputs, model.call(inputs)) instead"
        )
    return model


def _told(out: Path, pruned: Pruned, asked: Goal, parameters: dict[str, int]) -> list[str]:
    """Lines about the removals and their cost, kept layers with reasons, and warnings."""
    outcome, (measured, held_out) = pruned.outcome, pruned.rows
    sizes = {"parameters": outcome.parameters, "flops": outcome.flops}
    before, after = sizes[asked.measure]
    loss = f"loss {outcome.loss_before:.4f} -> {outcome.loss_after:.4f}"
    if not outcome.has_loss:
        loss = "no loss, which wants a compiled model and y in the data"
    lines = [
        f"{out}: parameters {outcome.parameters[0]:,} -> {outcome.parameters[1]:,}, FLOPs "
        f"{outcome.flops[0]:.3g} -> {outcome.flops[1]:.3g}, {loss}; {outcome.totals}",
        f"{1 - after / before:.1%} of the {asked.measure} are gone, {asked.size:.1%} were asked; "
        f"on {held_out} rows that were not measured on the outputs changed by {pruned.moved:.2g} "
        "of their norm",
    ]
    if measured < pruned.wanted:
        lines.append(
            f"warning: {measured} rows were measured on, fewer than the widest layer needs; "
            f"{2 * pruned.wanted} rows in the file, half of them held out, would do"
        )
    stays = left_alone(outcome.left_alone, parameters, outcome.parameters[0])
    return [
        *lines,
        *(f"  {row}" for row in table_of(outcome.changes, has_loss=outcome.has_loss)),
        *(f"left alone: {line}" for line in stays),
    ]


def _must_load(file: Path, probe: Probe) -> None:
    """Raise InputError if *file* does not give back the saved model."""
    try:
        wrong = probe.complaint(keras.models.load_model(file))
    except (ValueError, OSError, TypeError) as error:
        wrong = f"it cannot be loaded: {reason_of(error)}"
    if wrong:
        raise InputError(
            "a fault of matex: the file of the smaller model would not hold it, so none was "
            f"written; {wrong}. Leave layers out with --exclude NAME until it can"
        )
