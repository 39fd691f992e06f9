"""One event: score, decide, transfer, evaluate by the held-out loss, cut."""

from __future__ import annotations

from typing import Any

import numpy as np

from matex.apoptosis import targets
from matex.apoptosis.cut import rebuild
from matex.apoptosis.graph.trace import trace
from matex.apoptosis.held_out_loss import HeldOutLoss
from matex.apoptosis.outcome import Outcome, change_of
from matex.apoptosis.peers import Peers
from matex.apoptosis.samples import Sample
from matex.apoptosis.schedule import Thresholds
from matex.apoptosis.search import search
from matex.apoptosis.trial import ModelTrial, Options

__all__ = ["hold_event"]


def hold_event(
    model: Any,
    options: Options,
    thresholds: Thresholds,
    *,
    scoring: Sample,
    held_out: HeldOutLoss,
    peers: Peers,
    goal: targets.Goal | None = None,
    reaches: bool = False,
    before: float | None = None,
    allowed: float = np.inf,
) -> Outcome:
    """Remove units of *model* as *thresholds* allow; collective over *peers*.

    Until every decision is made no shape changes, and a group's change is undone by giving
    its readers their values back. Then the cut is proved on some rows: a group without which the
    model fails, or computes anything else, gets everything back and is named. Afterwards all hold
    the same weights and slots. A rank that dies on the way takes nothing along.

    Args:
        goal: size at which removal stops; the cheapest groups lose units first.
        reaches: whether the goal must be reached at any cost, by the cheapest removals.
        before: loss that *held_out* has just computed, if known.
        allowed: limit of the held-out loss.

    Raises:
        Unsupported: the model cannot be followed.
    """
    peers.reached("apoptosis")
    trial = ModelTrial(model, options, held_out=held_out, peers=peers)
    sizes = model.count_params(), rebuild.flops(trial.net)
    trial.measure(scoring)
    peers.reached("apoptosis-deciding")
    if before is None:
        before = held_out.loss(peers)
    held_out.begin()
    with trial.masks:
        trial.begin(scoring)
        verdicts, loss_after = search(
            trial.decide(thresholds, goal, reaches=reaches),
            trial,
            before=before,
            allowed=allowed,
            adapts=thresholds.mode.adapts,
        )
        removing = [verdict.candidate for verdict in verdicts if verdict.kept]
        at_risk = held_out.at_risk(peers) if removing else None
        peers.reached("apoptosis-rebuilding")
        unfit: dict[int, str] = {}
        while removing and (wrong := trial.cut(removing, scoring)):
            unfit |= wrong
            removing = [one for one in removing if one.number not in unfit]
            trial.start_over(removing)
            loss_after = held_out.loss(peers)
            held_out.accept()
            at_risk = held_out.at_risk(peers) if removing else None
    after = trial.net
    if removing:
        peers.broadcast_weights(model)
        after = trace(model, exclude=options.exclude)
    for name, why in (refused := trial.names_of(unfit)).items():
        peers.say(f"apoptosis leaves {name} alone: with fewer of its units {why}")
    return Outcome(
        changes=[
            change_of(verdict) for verdict in verdicts if verdict.candidate.number not in unfit
        ],
        groups=trial.widths,
        loss_before=before,
        loss_after=loss_after,
        loss_allowed=allowed if np.isfinite(allowed) else None,
        at_risk=at_risk,
        parameters=(sizes[0], model.count_params()),
        flops=(sizes[1], rebuild.flops(after)),
        left_alone=trial.net.left_alone | refused,
        refused=tuple(trial.layers_of(unfit)),
        has_loss=held_out.has_loss,
    )
