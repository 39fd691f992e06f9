"""Comparison of a fit's numbers with plain Keras's: reasons for differences. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["SKIPPED", "Circumstances", "differences", "in_words", "numbers_of"]

#: Name of the difference that a step makes in which samples of a rank were left out.
SKIPPED = "samples left out (--nonfinite skip)"

# Orders of samples that differ from plain Keras's.
_OTHER_ORDERS = {"anew": "the order of samples", "ring": "the order of samples (--shuffle ring)"}


@dataclass(frozen=True, kw_only=True)
class Circumstances:
    """Facts that decide whether a fit's numbers equal plain Keras's, up to rounding.

    Args:
        parts: number of training ranks, or of virtual workers, among which a batch is divided.
        order: order of the samples, as the event ``fit`` names it.
        changed: changes of the batches at checkpoints from which the fit continued, in words.
        strategy: name of the strategy.
        batch_per_rank: whether the batch grows with the ranks.
        lr_scaling: rule by which the learning rate grows with them.
        compression: format of exchanged gradients, or ``none``.
        apoptosis: mode of apoptosis from the options; empty for none.
        normalized_alone: number of layers that normalise over the rows of one rank.
        wandering: number of layers whose bias is subtracted again, by a BatchNormalization right
            behind, and follows rounding.
        shifted: names of the random functions whose rows are drawn otherwise on each rank.
        summed: names of embeddings whose gradient slices are summed before an optimizer that would
            square each slice gets them.
        copied: names of optimizers that set variables once, when they are built, such as copies of
            weights; plain Keras does so in each step.
        dropped: whether plain Keras may drop accumulated gradients, because data of unknown length
            end.
        mapped: names of layers that draw random numbers both in the model and in the pipeline of
            the data, which is read ahead of the steps.
        in_float16: whether a layer computes in float16. The gradients of a whole batch may overflow
            there, and the update be left out, where the sum over its parts is finite.
    """

    parts: int
    order: str
    changed: Sequence[str] = ()
    strategy: str = "sync"
    batch_per_rank: bool = False
    lr_scaling: str = "none"
    compression: str = "none"
    apoptosis: str = ""
    normalized_alone: int = 0
    wandering: int = 0
    shifted: Sequence[str] = ()
    summed: Sequence[str] = ()
    copied: Sequence[str] = ()
    dropped: bool = False
    mapped: Sequence[str] = ()
    in_float16: bool = False


def differences(fit: Circumstances) -> list[str]:
    """Names of the reasons for which the numbers of *fit* differ from plain Keras's."""
    found = [*fit.changed]
    if fit.order in _OTHER_ORDERS:
        found.append(_OTHER_ORDERS[fit.order])
    if fit.apoptosis:
        found.append(f"apoptosis {fit.apoptosis}")
    if fit.summed:
        found.append(f"added up sparse gradients ({', '.join(sorted(fit.summed))})")
    if fit.copied:
        names = ", ".join(fit.copied)
        found.append(f"{names}, whose copies of weights plain Keras makes anew in each step")
    if fit.dropped:
        found.append("accumulated gradients, which plain Keras drops where data end")
    if fit.mapped:
        names = ", ".join(fit.mapped)
        found.append(f"random numbers of {names}, in the model and in tf.data's maps from one seed")
    if fit.parts == 1:
        return found
    if fit.strategy != "sync":
        found.append(f"strategy {fit.strategy}")
    if fit.batch_per_rank:
        found.append("a batch that grows with the ranks")
    if fit.lr_scaling != "none":
        found.append(f"a learning rate that grows with the ranks ({fit.lr_scaling})")
    if fit.compression != "none":
        found.append(f"gradients in {fit.compression}")
    if fit.normalized_alone:
        # Strategies refuse the option: their ranks do not make one step together.
        way = "; --sync-batchnorm" if fit.strategy == "sync" else ""
        count = _layers(fit.normalized_alone)
        found.append(f"BatchNormalization by parts of the batch ({count}{way})")
    if fit.wandering:
        count = _layers(fit.wandering)
        found.append(
            f"biases before BatchNormalization, which follow rounding ({count}; use_bias=False)"
        )
    if fit.shifted:
        found.append(f"random numbers of {', '.join(sorted(fit.shifted))}")
    if fit.in_float16:
        found.append("float16, in which a whole batch may overflow where its parts do not")
    return found


def _layers(count: int) -> str:
    return f"{count} layer{'s' if count > 1 else ''}"


def in_words(but_for: Sequence[str]) -> str:
    """Text about the numbers of a fit, for the terminal and ``summary.json``."""
    return "of plain Keras" + (f" but for: {', '.join(but_for)}" if but_for else "")


def numbers_of(events: Iterable[Mapping[str, Any]], *, skipped: bool = False) -> str | None:
    """Text about all fits in *events*; None if no event tells.

    Args:
        skipped: whether samples of finished steps were left out. False by default.
    """
    told: dict[Any, Sequence[str]] = {}
    for number, event in enumerate(events):
        if event["event"] in ("fit", "loop") and "but_for" in event:
            # A fit that turns out to need whole batches in its first step writes another event.
            told[event.get("fit", f"event {number}"), event.get("step")] = event["but_for"]
    every = dict.fromkeys(name for but_for in told.values() for name in but_for)
    return in_words([*every, *([SKIPPED] if skipped else [])]) if told else None
