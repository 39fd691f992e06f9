"""The search for the numbers of units to remove, with few evaluations of the held-out loss.

First all groups are tried at once, at the cost of their thresholds. Where the loss rises too far,
each group is tried by itself; of a group for which it still does, as many units as should cost its
share of the rise that is left. Where the loss hardly rises, more is tried of all groups; if that is
too much, the amount that should be allowed by the rise that it caused: the loss is convex in the
amount removed, so between two points it lies below the line through them. A group's units go in
one order, so a smaller removal is part of a larger one.

Shares are proportional to the square roots of the savings of each group. With equal shares groups
that hardly matter to the network's size would spend most of the allowed rise; in proportion to the
savings one group would, up to where the network fails.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from matex.apoptosis.graph.trace import Group
from matex.apoptosis.group_statistics import Removal
from matex.apoptosis.schedule import LEAST_SHARE, LESS, MORE

__all__ = ["Candidate", "GroupVerdict", "Trial", "removed_of", "search", "worth_it"]


# Fraction of the allowed share, as a loss does not rise exactly as the cost; and the smallest tried
# fraction of a threshold.
_SAFE, _LEAST = 0.8, 1 / 9


class Candidate(NamedTuple):
    """A group, the units that would be removed, and their costs; ``tau`` is its threshold."""

    number: int
    group: Group
    removal: Removal
    tau: float

    def at(self, part: float) -> Candidate:
        """A copy with the removal at this part of the threshold."""
        return self._replace(removal=self.removal.within(part * self.tau))

    @property
    def is_worth_it(self) -> bool:
        """Whether enough units are removed for shrinking the group to be worth its cost."""
        return len(self.removal.removed) >= max(1.0, LEAST_SHARE * self.group.width)


class GroupVerdict(NamedTuple):
    """Verdict on a group: the tried fraction of its threshold, and the held-out loss."""

    candidate: Candidate
    part: float
    loss: float
    kept: bool


class Trial(Protocol):
    """The network on which removals are tried."""

    def apply(self, some: Sequence[Candidate]) -> None:
        """Remove the units of *some*, and transfer their work to kept units."""

    def loss(self) -> float:
        """Current held-out loss."""

    def saving(self, one: Candidate) -> float:
        """Amount by which removing *one* shrinks the network, above 0, in any unit."""

    def accept(self) -> None:
        """Keep the removals applied last."""

    def undo(self) -> None:
        """Undo the removals applied last."""


def search(
    found: Sequence[Candidate], trial: Trial, *, before: float, allowed: float, adapts: bool
) -> tuple[list[GroupVerdict], float]:
    """Apply to *trial* removals whose loss stays within *allowed*; return verdicts and loss.

    Args:
        before: the loss without any removal.
        adapts: whether more than the thresholds may go.
    """
    course = _Course(trial, before, allowed)
    whole = [(one, 1.0) for one in worth_it(found, 1.0)]
    if course.together(whole):
        hardly = course.loss - before <= LESS * (allowed - before) and math.isfinite(allowed)
        if adapts and hardly and not course.together(course.more(found, MORE)):
            course.together(course.more(found, course.between()))
    else:
        if len(whole) > 1:
            course.each(whole)
        course.together(course.less())
    return list(course.verdicts.values()), course.loss


class _Course:
    """The trials so far: ``loss`` with all that was accepted, the newest verdicts by group."""

    def __init__(self, trial: Trial, before: float, allowed: float) -> None:
        self._trial = trial
        self._allowed = allowed
        self._rise: dict[int, float] = {}  # of the loss, by a group alone
        self._refused = before  # the loss that was last
        self.loss = before
        self.verdicts: dict[int, GroupVerdict] = {}

    def together(self, some: Sequence[tuple[Candidate, float]]) -> bool:
        """Try groups at fractions of their thresholds; return whether the loss allows them."""
        return not some or self._try(some, self._allowed)

    def each(self, some: Sequence[tuple[Candidate, float]]) -> None:
        """Try each group alone, and keep it if it takes at most its share of the remaining rise.

        A group may cost as much as all others together, and would leave nothing for them. The
        unused part of its share is for more important groups, which come later.
        """
        weighed = [(self._weight(one), one, part) for one, part in some]
        ordered = sorted(weighed, key=operator.itemgetter(0))
        for place, (weight, one, part) in enumerate(ordered):
            share = weight / sum(others for others, *_ in ordered[place:])
            self._try([(one, part)], self.loss + share * (self._allowed - self.loss))

    def less(self) -> list[tuple[Candidate, float]]:
        """Refused candidates, each reduced to its share of the remaining loss.

        The loss rises about as the cost does, so by how far it did.
        """
        refused = [verdict.candidate for verdict in self.verdicts.values() if not verdict.kept]
        weights = [self._weight(one) for one in refused]
        total, result = sum(weights), []
        for weight, one in zip(weights, refused, strict=True):
            share = _SAFE * (self._allowed - self.loss) * weight / total
            part = min(1.0, max(_LEAST, share / self._rise[one.number]))
            if (less := one.at(part)).is_worth_it:
                result.append((less, part))
        return result

    def more(self, found: Sequence[Candidate], part: float) -> list[tuple[Candidate, float]]:
        """Removals at *part* of the thresholds that are worth it beyond the accepted ones."""
        going = {n: len(v.candidate.removal.removed) for n, v in self.verdicts.items() if v.kept}
        return [
            (one, part)
            for one in worth_it(found, part)
            if len(one.removal.removed) - going.get(one.number, 0) >= LEAST_SHARE * one.group.width
        ]

    def between(self) -> float:
        """Fraction, below the last refused one, at which the loss should reach its limit."""
        rise = self._refused - self.loss
        return max(1.0, 1 + (MORE - 1) * _SAFE * (self._allowed - self.loss) / rise)

    def _weight(self, one: Candidate) -> float:
        return math.sqrt(self._trial.saving(one))

    def _try(self, some: Sequence[tuple[Candidate, float]], limit: float) -> bool:
        self._trial.apply([one for one, _ in some])
        loss = self._trial.loss()
        kept = loss <= limit
        if len(some) == 1:
            self._rise[some[0][0].number] = loss - self.loss
        if kept:
            self._trial.accept()
            self.loss = loss
        else:
            self._trial.undo()
            self._refused = loss
        for one, part in some:
            known = self.verdicts.get(one.number)
            if kept or known is None or not known.kept:
                self.verdicts[one.number] = GroupVerdict(one, part, loss, kept)
        return kept


def worth_it(found: Sequence[Candidate], part: float) -> list[Candidate]:
    """Groups with enough removable units at *part* of their thresholds, and these units."""
    return [less for one in found if (less := one.at(part)).is_worth_it]


def removed_of(some: Iterable[Candidate]) -> set[int]:
    """The roots of all removed units."""
    return {int(unit) for one in some for unit in one.group.members[one.removal.removed]}
