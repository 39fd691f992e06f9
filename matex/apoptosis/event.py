"""One event: score, decide, hand over, judge by the held-out loss, cut."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from matex.apoptosis import measure, rebuild, surgery, targets
from matex.apoptosis.allotment import allotted
from matex.apoptosis.criteria import choose, transfers
from matex.apoptosis.evidence import Evidence, Limits, Removal
from matex.apoptosis.judge import Judge
from matex.apoptosis.masking import Masks
from matex.apoptosis.peers import Peers
from matex.apoptosis.proof import Probe, cut_proven
from matex.apoptosis.samples import Sample
from matex.apoptosis.schedule import MORE, Thresholds
from matex.apoptosis.search import Candidate, GroupVerdict, dead_of, search, worth_it
from matex.apoptosis.trace import groups_of, trace
from matex.partition.spans import Span

__all__ = ["Change", "Options", "Outcome", "hold_event"]

# Rows on which norms are fitted again: each shows them many positions, or has two numbers a unit.
_FEW = 256


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a user may choose of events; see :class:`matex.Apoptosis`."""

    criterion: str = "gram"
    exclude: tuple[str, ...] = ()
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
    part: float
    """At which part of the threshold of the cost."""


class Outcome(NamedTuple):
    """What came of an event."""

    changes: list[Change]
    loss_before: float
    loss_after: float
    loss_allowed: float | None
    """What it might have come to; None: anything."""
    at_risk: float | None
    """At most this share of held-out predictions has changed; None where nothing is classified."""
    parameters: tuple[int, int]
    flops: tuple[float, float]
    left_alone: dict[str, str]
    """Layers, or layers that go together, and why nothing of them can go."""
    refused: tuple[str, ...]
    """Layers whose units were cut, found to be needed by something unknown, and put back."""

    @property
    def changed(self) -> bool:
        return any(change.kept for change in self.changes)

    @property
    def gone(self) -> float:
        """The part of the parameters that went."""
        before, after = self.parameters
        return 1 - after / max(before, 1)


def hold_event(
    model: Any,
    options: Options,
    thresholds: Thresholds,
    *,
    scoring: Sample,
    judge: Judge,
    peers: Peers,
    goal: targets.Goal | None = None,
    reaches: bool = False,
    before: float | None = None,
    allowed: float = np.inf,
) -> Outcome:
    """Remove what *thresholds* allow from *model*; collective over *peers*.

    Until every decision is made no shape changes, and a group's change is undone by giving
    its readers their values back. Then the cut is proved on some rows: a group without which the
    model fails, or computes anything else, gets everything back and is named. Afterwards all hold
    the same weights and slots. A rank that dies on the way takes nothing along.

    Args:
        goal: beyond which nothing goes; of all groups that which costs least does first.
        reaches: the goal is come to at whatever cost, the least.
        before: what *judge* has just made of *model*, if it was asked.
        allowed: the held-out loss that it may come to.

    Raises:
        Unsupported: the model cannot be followed.
    """
    peers.reached("apoptosis")
    event = _Event(model, options, judge=judge, peers=peers)
    sizes = model.count_params(), rebuild.flops(event.net)
    if options.criterion == "gram":
        event.measure(scoring)
    peers.reached("apoptosis-deciding")
    if before is None:
        before = judge.loss(peers)
    judge.begin()
    with event.masks:
        event.begin(scoring)
        verdicts, loss_after = search(
            event.decide(thresholds, goal, reaches=reaches),
            event,
            before=before,
            allowed=allowed,
            adapts=thresholds.mode.adapts,
        )
        dying = [verdict.candidate for verdict in verdicts if verdict.kept]
        at_risk = judge.at_risk(peers) if dying else None
        peers.reached("apoptosis-rebuilding")
        unfit: dict[int, str] = {}
        while dying and (wrong := event.cut(dying, scoring)):
            unfit |= wrong
            dying = [one for one in dying if one.number not in unfit]
            event.start_over(dying)
            loss_after = judge.loss(peers)
            judge.accept()
            at_risk = judge.at_risk(peers) if dying else None
    after = event.net
    if dying:
        peers.settle(model)
        after = trace(model, exclude=options.exclude)
    for name, why in (refused := event.names_of(unfit)).items():
        peers.say(f"apoptosis leaves {name} alone: with fewer of its units {why}")
    return Outcome(
        changes=[_change(verdict) for verdict in verdicts if verdict.candidate.number not in unfit],
        loss_before=before,
        loss_after=loss_after,
        loss_allowed=allowed if np.isfinite(allowed) else None,
        at_risk=at_risk,
        parameters=(sizes[0], model.count_params()),
        flops=(sizes[1], rebuild.flops(after)),
        left_alone=event.net.left_alone | refused,
        refused=tuple(event.layers_of(unfit)),
    )


class _Event:
    """The network before anything is cut, and what is known of its groups: a ``Trial``."""

    def __init__(self, model: Any, options: Options, *, judge: Judge, peers: Peers) -> None:
        self._model = model
        self._options = options
        self._judge = judge
        self._peers = peers
        self.net = trace(model, exclude=options.exclude)
        self.masks = Masks(self.net, judge.forget)
        self._few: Any = None  # rows on which norms are fitted again
        self._dead: dict[int, set[int]] = {}  # by group, as applied
        self._dead_before = self._dead
        self._groups = groups_of(self.net)
        self._sums: measure.Sums | None = None
        self._values: list[tuple[Any, np.ndarray]] = []
        self._first: dict[int, tuple[Any, np.ndarray]] = {}  # what variables held at the start
        self._known: dict[tuple[int, int], tuple[np.ndarray, ...]] = {}
        self._savings: dict[int, float] = {}  # of a unit, by groups

    def measure(self, scoring: Sample) -> None:
        """Second moments over as much of the sample as it takes, shared out; collective."""
        needed = measure.samples_needed(self.net, self._groups, scoring.size)
        scoring = scoring.fewer(needed)

        def add(spans: list[Span], total: np.ndarray) -> None:
            starts, batches = scoring.starts(spans), scoring.batches(spans)
            inputs = [(first, batch[0]) for first, batch in zip(starts, batches, strict=True)]
            into = measure.views(self._groups, total)
            measure.add(self._model, self.net, self._groups, inputs, scoring.size, into)

        total = self._peers.total(scoring.size, measure.numbers(self._groups), add)
        self._sums = measure.views(self._groups, total)

    def decide(
        self, thresholds: Thresholds, goal: targets.Goal | None, *, reaches: bool
    ) -> list[Candidate]:
        """Who of each group would die, at up to the most that the search may try; collective."""
        fraction = thresholds.mode.fraction
        options = self._options
        most = MORE if thresholds.mode.adapts else 1.0

        def make(number: int) -> Removal:
            group = self._groups[number]
            limits = Limits(
                int(fraction * group.width), most * thresholds.tau(group.name), group.parts
            )
            return choose(options.criterion, self._facts(number), limits, seed=options.seed)

        removals = self._peers.decide([group.width for group in self._groups], make)
        found = [
            Candidate(number, group, removal, thresholds.tau(group.name))
            for number, (group, removal) in enumerate(zip(self._groups, removals, strict=True))
        ]
        if goal is None:
            return found
        if reaches:
            whole = targets.size_of(self.net, goal.measure)
            savings = [
                whole - targets.size_of(self.net, goal.measure, one.group.members[:1])
                for one in found
            ]
            return allotted(found, savings, lambda some: goal.is_met(self.net, dead_of(some)))
        part = goal.part(self.net, lambda part: dead_of(worth_it(found, part)), most)
        return worth_it(found, part)

    def begin(self, scoring: Sample) -> None:
        """Look at what is to be kept of the model as it is; local."""
        few = scoring.fewer(_FEW)
        self._few = few.batches([(0, few.size)])[0][0]
        self.masks.remember(self._model, self._few)

    def apply(self, some: Sequence[Candidate]) -> None:
        """Give the work of their dead to the living; local."""
        self._values = []
        for one in some:
            given = self._transfers(one)
            self._values += surgery.take_over(self.net, one.group, one.removal, given)
        self._dead_before = self._dead
        self._leave_out(self._dead | {one.number: dead_of([one]) for one in some})
        self._values += self.masks.refit(self._model, self._few)
        for variable, value in self._values:
            self._first.setdefault(id(variable), (variable, value))

    def undo(self) -> None:
        """The readers get back the values that the last :meth:`apply` changed; local."""
        for variable, value in reversed(self._values):
            variable.assign(value)
        self._leave_out(self._dead_before)

    def _leave_out(self, dead: dict[int, set[int]]) -> None:
        self._dead = dead
        self.masks.leave_out(set().union(*dead.values()))

    def cut(self, some: Sequence[Candidate], sample: Sample) -> dict[int, str]:
        """Cut their dead out, and prove it on *sample*: see :func:`cut_proven`; collective."""
        probe = Probe(self._model, sample)
        return cut_proven(self._model, self.net, some, probe, self._peers, self.masks.bindings)

    def start_over(self, some: Sequence[Candidate]) -> None:
        """Take back all that was ever applied, and apply *some* instead; local."""
        for variable, value in self._first.values():
            variable.assign(value)
        self._leave_out({})
        self.apply(some)

    def names_of(self, unfit: Mapping[int, str]) -> dict[str, str]:
        """What is wrong with each group, by its name instead of its number; local."""
        return {self._groups[number].name: why for number, why in unfit.items()}

    def layers_of(self, unfit: Iterable[int]) -> list[str]:
        """The names of the layers that make the units of groups; local."""
        sources = [source for number in unfit for source in self._groups[number].sources]
        return [self.net.sources[source].layer.name for source in sources]

    def loss(self) -> float:
        """The held-out loss; collective."""
        return self._judge.loss(self._peers)

    def saving(self, one: Candidate) -> float:
        """About the parts of the parameters and of the FLOPs that go with its dead; local."""
        if one.number not in self._savings:
            self._savings[one.number] = targets.saving(self.net, one.group.members[:1])
        return len(one.removal.removed) * self._savings[one.number]

    def accept(self) -> None:
        """What was judged last may stay; local."""
        self._judge.accept()

    def _transfers(self, one: Candidate) -> tuple[np.ndarray, ...]:
        criterion, removal = self._options.criterion, one.removal
        key = one.number, len(removal.removed)
        if key not in self._known:
            facts = self._facts(one.number)
            given = transfers(criterion, facts, removal.kept, removal.removed)
            if criterion != "gram":  # which looks at weights that the others' dead change
                return given
            self._known[key] = given
        return self._known[key]

    def _facts(self, number: int) -> Evidence:
        sums = None if self._sums is None else self._sums[number]
        return surgery.evidence(self.net, self._groups[number], sums, incoming=sums is None)


def _change(verdict: GroupVerdict) -> Change:
    group, removal = verdict.candidate.group, verdict.candidate.removal
    left = len(removal.kept)
    return Change(
        group.name, group.width, left, removal.cost, verdict.loss, verdict.kept, verdict.part
    )
