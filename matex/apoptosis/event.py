"""One event: score, decide, hand over, judge by the held-out loss, cut."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from matex.apoptosis import measure, rebuild, surgery, targets
from matex.apoptosis.criteria import choose, transfers
from matex.apoptosis.evidence import Limits, Removal
from matex.apoptosis.judge import Judge
from matex.apoptosis.network import Network
from matex.apoptosis.peers import Peers
from matex.apoptosis.samples import Sample
from matex.apoptosis.schedule import LEAST_SHARE, Thresholds, allowed_loss
from matex.apoptosis.trace import Group, groups_of, trace

__all__ = ["Change", "Options", "Outcome", "hold_event"]


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a user may choose of events; see :class:`matex.Apoptosis`."""

    criterion: str = "gram"
    exclude: tuple[str, ...] = ()
    delta: float | None = 0.005
    """How far the held-out loss may rise; None: it is not asked."""
    seed: int = 0


class Change(NamedTuple):
    """What came of one group."""

    layer: str
    units_from: int
    units_to: int
    cost: float
    loss: float
    kept: bool
    """Whether it stands; else the loss rose too far and all is as it was."""


class Outcome(NamedTuple):
    """What came of an event."""

    changes: list[Change]
    loss_before: float
    loss_after: float
    at_risk: float | None
    """At most this share of held-out predictions has changed; None where nothing is classified."""
    parameters: tuple[int, int]
    flops: tuple[float, float]
    seconds: float
    left_alone: dict[str, str]

    @property
    def changed(self) -> bool:
        return any(change.kept for change in self.changes)


def hold_event(
    model: Any,
    options: Options,
    thresholds: Thresholds,
    *,
    scoring: Sample,
    judge: Judge,
    peers: Peers,
    share: float = 1.0,
    loss_at_start: float = 0.0,
) -> Outcome:
    """Remove what *thresholds* allow from *model*; collective over *peers*.

    Until every decision is made no shape changes, and a group's change is undone by giving
    its readers their values back. Afterwards all hold the same weights and slots. A rank
    that dies on the way takes nothing along.

    Args:
        share: of each group's units, how much may go at most.
        loss_at_start: the untrained network's, as a scale.

    Raises:
        Unsupported: the model cannot be followed.
    """
    started = time.perf_counter()
    net = trace(model, exclude=options.exclude)
    groups = groups_of(net)
    sizes = model.count_params(), rebuild.flops(net)
    peers.reached("apoptosis")
    sums = _sums(model, net, groups, scoring, peers) if options.criterion == "gram" else None
    peers.reached("apoptosis-deciding")
    before = judge.loss(model, peers)
    judge.begin()
    allowed = np.inf
    if options.delta is not None:
        allowed = allowed_loss(before, loss_at_start, options.delta)

    def facts(i: int) -> Any:
        own = None if sums is None else sums[i]
        return surgery.evidence(net, groups[i], own, incoming=sums is None)

    def make(i: int) -> Removal:
        group = groups[i]
        fraction = min(thresholds.mode.fraction, share)
        limits = Limits(int(fraction * group.width), thresholds.tau(group.name), group.parts)
        return choose(options.criterion, facts(i), limits, seed=options.seed)

    removals = peers.decide([group.width for group in groups], make)
    candidates = [
        (group, removal, i)
        for i, (group, removal) in enumerate(zip(groups, removals, strict=True))
        if len(removal.removed) >= max(1.0, LEAST_SHARE * group.width)
    ]

    def tried(some: list[tuple[Group, Removal, int]]) -> tuple[float, bool]:
        """Hand over the work of the dead of *some* groups, or of none if the loss forbids it."""
        values = {id(v): (v, v.numpy()) for group, _, _ in some for v in surgery.touched(group)}
        for group, removal, i in some:
            given = transfers(options.criterion, facts(i), removal.kept, removal.removed)
            surgery.take_over(net, group, removal, given)
        now = judge.loss(model, peers)
        if now <= allowed:
            judge.accept()
            return now, True
        for variable, value in values.values():
            variable.assign(value)
        return now, False

    changes: list[Change] = []
    dead: set[int] = set()
    loss = before
    pending = [candidates] if candidates else []
    while pending:
        some = pending.pop(0)
        now, kept = tried(some)
        if not kept and len(some) > 1:  # which of them was it?
            pending = [[one] for one in some]
            continue
        loss = now if kept else loss
        for group, removal, _ in some:
            if kept:
                dead.update(group.members[removal.removed].tolist())
            changes.append(
                Change(group.name, group.width, len(removal.kept), removal.cost, now, kept)
            )
    at_risk = judge.at_risk(peers) if dead else None
    peers.reached("apoptosis-rebuilding")
    after = net
    if dead:
        rebuild.cut(model, net, dead)
        peers.settle(model)
        after = trace(model, exclude=options.exclude)
    return Outcome(
        changes=changes,
        loss_before=before,
        loss_after=loss,
        at_risk=at_risk,
        parameters=(sizes[0], model.count_params()),
        flops=(sizes[1], rebuild.flops(after)),
        seconds=time.perf_counter() - started,
        left_alone=net.left_alone,
    )


def share_to(model: Any, measured: str, goal: float, exclude: tuple[str, ...]) -> float:
    """The share of each group that may go so that *model* comes down to the size *goal*."""
    net = trace(model, exclude=exclude)
    return targets.share_for(net, groups_of(net), measured, goal)


def _sums(
    model: Any, net: Network, groups: list[Group], scoring: Sample, peers: Peers
) -> measure.Sums:
    """Second moments over the whole sample, each rank going through its part of it."""

    def compute(spans: list[tuple[int, int]]) -> np.ndarray:
        inputs = [batch[0] for batch in scoring.batches(spans)]
        return _flat(measure.measured(model, net, groups, inputs))

    shapes = measure.sums_like(groups)
    pieces = iter(
        np.split(
            peers.total(scoring.size, compute),
            np.cumsum([m.size for own in shapes for m in own])[:-1],
        )
    )
    return [[next(pieces).reshape(m.shape) for m in own] for own in shapes]


def _flat(sums: measure.Sums) -> np.ndarray:
    parts = [matrix.ravel() for own in sums for matrix in own]
    return np.concatenate(parts) if parts else np.zeros(0)
