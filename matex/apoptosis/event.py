"""One event: score, decide, hand over, judge by the held-out loss, cut."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from matex.apoptosis import measure, rebuild, surgery, targets
from matex.apoptosis.criteria import choose, transfers
from matex.apoptosis.evidence import Evidence, Limits, Removal
from matex.apoptosis.judge import Judge
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
    peers.reached("apoptosis")
    event = _Event(model, options, judge=judge, peers=peers)
    sizes = model.count_params(), rebuild.flops(event.net)
    if options.criterion == "gram":
        event.measure(scoring)
    peers.reached("apoptosis-deciding")
    before = judge.loss(model, peers)
    judge.begin()
    allowed = np.inf
    if options.delta is not None:
        allowed = allowed_loss(before, loss_at_start, options.delta)
    changes, dead = event.hand_over(event.decide(thresholds, share), allowed)
    at_risk = judge.at_risk(peers) if dead else None
    peers.reached("apoptosis-rebuilding")
    after = event.net
    if dead:
        rebuild.cut(model, event.net, dead)
        peers.settle(model)
        after = trace(model, exclude=options.exclude)
    return Outcome(
        changes=changes,
        loss_before=before,
        loss_after=next((c.loss for c in reversed(changes) if c.kept), before),
        at_risk=at_risk,
        parameters=(sizes[0], model.count_params()),
        flops=(sizes[1], rebuild.flops(after)),
        seconds=time.perf_counter() - started,
        left_alone=event.net.left_alone,
    )


class _Candidate(NamedTuple):
    """A group that is to lose units."""

    number: int
    group: Group
    removal: Removal


class _Event:
    """The network as it is before anything is cut, and what is known of its groups."""

    def __init__(self, model: Any, options: Options, *, judge: Judge, peers: Peers) -> None:
        self._model = model
        self._options = options
        self._judge = judge
        self._peers = peers
        self.net = trace(model, exclude=options.exclude)
        self._groups = groups_of(self.net)
        self._sums: measure.Sums | None = None

    def measure(self, scoring: Sample) -> None:
        """Second moments over the whole sample, each rank going through its part; collective."""
        shapes = measure.sums_like(self._groups)
        sizes = [matrix.size for own in shapes for matrix in own]

        def compute(spans: list[tuple[int, int]]) -> np.ndarray:
            inputs = [batch[0] for batch in scoring.batches(spans)]
            sums = measure.measured(self._model, self.net, self._groups, inputs)
            return np.concatenate([np.zeros(0), *(m.ravel() for own in sums for m in own)])

        total = self._peers.total(scoring.size, compute)
        pieces = iter(np.split(total, np.cumsum([0, *sizes])[1:]))
        self._sums = [[next(pieces).reshape(m.shape) for m in own] for own in shapes]

    def decide(self, thresholds: Thresholds, share: float) -> list[_Candidate]:
        """Who dies of each group, those left out that would lose too few; collective."""
        fraction = min(thresholds.mode.fraction, share)
        options = self._options

        def make(number: int) -> Removal:
            group = self._groups[number]
            limits = Limits(int(fraction * group.width), thresholds.tau(group.name), group.parts)
            return choose(options.criterion, self._facts(number), limits, seed=options.seed)

        removals = self._peers.decide([group.width for group in self._groups], make)
        return [
            _Candidate(number, group, removal)
            for number, (group, removal) in enumerate(zip(self._groups, removals, strict=True))
            if len(removal.removed) >= max(1.0, LEAST_SHARE * group.width)
        ]

    def hand_over(
        self, candidates: list[_Candidate], allowed: float
    ) -> tuple[list[Change], set[int]]:
        """Give the work of the dead to the living where the held-out loss allows it; collective.

        All groups at once, and only if that is too much one by one. What came of each, and
        the roots of the dead.
        """
        changes: list[Change] = []
        dead: set[int] = set()
        pending = [candidates] if candidates else []
        while pending:
            some = pending.pop(0)
            loss, kept = self._try(some, allowed)
            if not kept and len(some) > 1:
                pending = [[one] for one in some]
                continue
            for _, group, removal in some:
                if kept:
                    dead.update(group.members[removal.removed].tolist())
                left = len(removal.kept)
                changes.append(Change(group.name, group.width, left, removal.cost, loss, kept))
        return changes, dead

    def _try(self, some: list[_Candidate], allowed: float) -> tuple[float, bool]:
        """The held-out loss with the dead of *some* groups gone, and whether they stay so."""
        values = {id(v): (v, v.numpy()) for one in some for v in surgery.touched(one.group)}
        for number, group, removal in some:
            criterion, facts = self._options.criterion, self._facts(number)
            given = transfers(criterion, facts, removal.kept, removal.removed)
            surgery.take_over(self.net, group, removal, given)
        loss = self._judge.loss(self._model, self._peers)
        if loss <= allowed:
            self._judge.accept()
            return loss, True
        for variable, value in values.values():
            variable.assign(value)
        return loss, False

    def _facts(self, number: int) -> Evidence:
        sums = None if self._sums is None else self._sums[number]
        return surgery.evidence(self.net, self._groups[number], sums, incoming=sums is None)


def share_to(model: Any, measured: str, goal: float, exclude: tuple[str, ...]) -> float:
    """The share of each group that may go so that *model* comes down to the size *goal*."""
    net = trace(model, exclude=exclude)
    return targets.share_for(net, groups_of(net), measured, goal)
