"""Trials of removals on a model with unchanged shapes, until a cut is decided."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from matex import keras_hooks
from matex.apoptosis import targets
from matex.apoptosis.allotment import allotted
from matex.apoptosis.criteria import derivatives, measure
from matex.apoptosis.criteria.criterion import Derivatives
from matex.apoptosis.criteria.table import CRITERIA
from matex.apoptosis.criteria.weight_statistics import statistics
from matex.apoptosis.cut import surgery
from matex.apoptosis.cut.masking import Masks
from matex.apoptosis.cut.proof import Probe, cut_proven
from matex.apoptosis.graph.trace import groups_of, trace
from matex.apoptosis.group_statistics import GroupStatistics, Limits, Removal
from matex.apoptosis.held_out_loss import HeldOutLoss
from matex.apoptosis.peers import Peers
from matex.apoptosis.samples import Sample
from matex.apoptosis.schedule import MORE, Thresholds
from matex.apoptosis.search import Candidate, Trial, removed_of, worth_it
from matex.partition.spans import Span

__all__ = ["ModelTrial", "Options"]

# Rows on which norms are fitted again: each shows them many positions, or has two numbers a unit.
_FEW = 256


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of events; see :class:`matex.Apoptosis`."""

    criterion: str = "gram"
    exclude: tuple[str, ...] = ()
    seed: int = 0


class ModelTrial(Trial):
    """The uncut network, the data about its groups, and the removals tried on it.

    Until :meth:`cut` no shape changes. Local, but where collective is said.
    """

    def __init__(
        self, model: Any, options: Options, *, held_out: HeldOutLoss, peers: Peers
    ) -> None:
        self._model = model
        self._options = options
        self._criterion = CRITERIA[options.criterion]
        self._held_out = held_out
        self._peers = peers
        self.net = trace(model, exclude=options.exclude)
        self.masks = Masks(self.net, held_out.forget)
        self._few: Any = None  # rows on which norms are fitted again
        self._removed: dict[int, set[int]] = {}  # by group, as applied
        self._removed_before = self._removed
        self._groups = groups_of(self.net)
        self._followers = keras_hooks.followers(model)
        self._sums: measure.Sums | None = None
        self._importances: list[np.ndarray] | None = None
        self._values: list[tuple[Any, np.ndarray]] = []
        self._first: dict[int, tuple[Any, np.ndarray]] = {}  # values of variables at the start
        self._known: dict[tuple[int, int], tuple[np.ndarray, ...]] = {}
        self._savings: dict[int, float] = {}  # of a unit, by groups

    def measure(self, scoring: Sample) -> None:
        """Measure what the criterion asks, on the needed part of the sample; collective.

        Raises:
            InputError: the criterion asks for a loss, and there is none.
            Unsupported: the loss has no such derivatives.
        """
        needed = measure.samples_needed(self.net, self._groups, scoring.size)
        if self._criterion.moments:
            self._measure_moments(scoring.fewer(needed))
        if self._criterion.derivatives is not None:
            self._measure_derivatives(self._criterion.derivatives, scoring.fewer(needed))

    def _measure_derivatives(self, wanted: Derivatives, scoring: Sample) -> None:
        """Measure derivatives of the loss over the sample, in shares; collective."""
        criterion, groups = self._criterion, self._groups
        derivatives.must_have_derivatives(criterion, self._model, self.net, groups, scoring)
        losses = derivatives.Losses(self._model, scoring.size, scoring.batches([(0, 1)])[0])

        def add_denominators(spans: list[Span], total: np.ndarray) -> None:
            losses.add_denominators(scoring.batches(spans), total)

        if count := len(losses.denominators):
            losses.denominators = self._peers.total(scoring.size, count, add_denominators)

        def add(spans: list[Span], total: np.ndarray) -> None:
            into = derivatives.views(wanted, groups, total)
            derivatives.add(wanted, losses, self.net, groups, scoring.batches(spans), into)

        total = self._peers.total(scoring.size, derivatives.numbers(wanted, groups), add)
        sums = derivatives.views(wanted, groups, total / scoring.size)
        self._importances = [wanted.importance(own) for own in sums]

    def _measure_moments(self, scoring: Sample) -> None:
        """Measure second moments over the sample, in shares; collective."""

        def add(spans: list[Span], total: np.ndarray) -> None:
            starts, batches = scoring.starts(spans), scoring.batches(spans)
            inputs = [(first, batch[0]) for first, batch in zip(starts, batches, strict=True)]
            into = measure.views(self._groups, total)
            measure.add(self._model, self.net, self._groups, inputs, scoring.size, into)

        total = self._peers.total(scoring.size, measure.numbers(self._groups), add)
        self._sums = measure.views(self._groups, total)

    @property
    def widths(self) -> tuple[int, ...]:
        """Units of each group of the network as it was. Local."""
        return tuple(group.width for group in self._groups)

    def decide(
        self, thresholds: Thresholds, goal: targets.Goal | None, *, reaches: bool
    ) -> list[Candidate]:
        """The removals of each group, at up to the most that the search may try; collective."""
        fraction = thresholds.mode.fraction
        most = MORE if thresholds.mode.adapts else 1.0

        def make(number: int) -> Removal:
            group = self._groups[number]
            limits = Limits(
                int(fraction * group.width), most * thresholds.tau(group.name), group.parts
            )
            return self._criterion.choose(self._facts(number), limits, self._options.seed)

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
            return allotted(found, savings, lambda some: goal.is_met(self.net, removed_of(some)))
        part = goal.part(self.net, lambda part: removed_of(worth_it(found, part)), most)
        return worth_it(found, part)

    def begin(self, scoring: Sample) -> None:
        """Save the current state of the model; local."""
        few = scoring.fewer(_FEW)
        self._few = few.batches([(0, few.size)])[0][0]
        self.masks.remember(self._model, self._few)

    def apply(self, some: Sequence[Candidate]) -> None:
        """Transfer the work of removed units to kept ones; local."""
        self._values = []
        for one in some:
            given = self._transfers(one)
            self._values += surgery.take_over(
                self.net, one.group, one.removal, given, self._followers
            )
        self._removed_before = self._removed
        self._leave_out(self._removed | {one.number: removed_of([one]) for one in some})
        self._values += self.masks.refit(self._model, self._few)
        self._values += surgery.carry_along(self._values, self._followers)
        for variable, value in self._values:
            self._first.setdefault(id(variable), (variable, value))

    def undo(self) -> None:
        """The readers get back the values that the last :meth:`apply` changed; local."""
        for variable, value in reversed(self._values):
            variable.assign(value)
        self._leave_out(self._removed_before)

    def _leave_out(self, removed: dict[int, set[int]]) -> None:
        self._removed = removed
        self.masks.leave_out(set().union(*removed.values()))

    def cut(self, some: Sequence[Candidate], sample: Sample) -> dict[int, str]:
        """Cut the removed units, proven on *sample*: see :func:`cut_proven`; collective."""
        probe = Probe(self._model, sample)
        return cut_proven(self._model, self.net, some, probe, self._peers, self.masks.bindings)

    def start_over(self, some: Sequence[Candidate]) -> None:
        """Take back all that was ever applied, and apply *some* instead; local."""
        for variable, value in self._first.values():
            variable.assign(value)
        self._leave_out({})
        self.apply(some)

    def names_of(self, unfit: Mapping[int, str]) -> dict[str, str]:
        """Faults of groups, by name instead of number; local."""
        return {self._groups[number].name: why for number, why in unfit.items()}

    def layers_of(self, unfit: Iterable[int]) -> list[str]:
        """The names of the layers that make the units of groups; local."""
        sources = [source for number in unfit for source in self._groups[number].sources]
        return [self.net.sources[source].layer.name for source in sources]

    def loss(self) -> float:
        """The held-out loss; collective."""
        return self._held_out.loss(self._peers)

    def saving(self, one: Candidate) -> float:
        """Approximate fractions of parameters and FLOPs that removing *one* saves; local."""
        if one.number not in self._savings:
            self._savings[one.number] = targets.saving(self.net, one.group.members[:1])
        return len(one.removal.removed) * self._savings[one.number]

    def accept(self) -> None:
        """Keep the removals evaluated last; local."""
        self._held_out.accept()

    def _transfers(self, one: Candidate) -> tuple[np.ndarray, ...]:
        criterion, removal = self._criterion, one.removal
        key = one.number, len(removal.removed)
        if key not in self._known:
            facts = self._facts(one.number)
            given = criterion.transfers(facts, removal.kept, removal.removed)
            if not criterion.reuses_transfers:
                return given
            self._known[key] = given
        return self._known[key]

    def _facts(self, number: int) -> GroupStatistics:
        sums = None if self._sums is None else self._sums[number]
        scores = None if self._importances is None else self._importances[number]
        incoming = sums is None and scores is None
        found = statistics(self.net, self._groups[number], sums, incoming=incoming)
        return found._replace(importance=scores)
