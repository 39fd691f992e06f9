"""How much of what may die does: a search that asks the held-out loss as seldom as it can.

All groups at once at the cost of their thresholds. Where the loss rises too far each group by
itself, and of those for which it still does as much as should cost their share of what is left.
Where it hardly rises more of all, or else as much as should be allowed by how far it then did:
a loss rises ever faster with what dies, so between two points it lies below the line through them.
A group dies in one order, so what dies at less is part of what dies at more.

Shares are as the square roots of what a group's dead make the network smaller by: with equal ones
groups that hardly matter to its size spend most of what is allowed, and in proportion to it one
group does, until it is where the network fails.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from matex.apoptosis.evidence import Removal
from matex.apoptosis.schedule import LEAST_SHARE, LESS, MORE
from matex.apoptosis.trace import Group

__all__ = ["Candidate", "GroupVerdict", "Trial", "dead_of", "search", "worth_it"]


# Of a share of what is allowed, as a loss does not rise quite as the cost does; and the least
# part of a threshold that is tried.
_SAFE, _LEAST = 0.8, 1 / 9


class Candidate(NamedTuple):
    """A group, and who of it would die at what cost; ``tau`` is its threshold."""

    number: int
    group: Group
    removal: Removal
    tau: float

    def at(self, part: float) -> Candidate:
        """With what dies at this part of the threshold."""
        return self._replace(removal=self.removal.within(part * self.tau))

    @property
    def is_worth_it(self) -> bool:
        """Shrinking a group by a few units costs more than it brings."""
        return len(self.removal.removed) >= max(1.0, LEAST_SHARE * self.group.width)


class GroupVerdict(NamedTuple):
    """What came of a group: at which part of its threshold, with which held-out loss."""

    candidate: Candidate
    part: float
    loss: float
    kept: bool


class Trial(Protocol):
    """The network on which removals are tried."""

    def apply(self, some: Sequence[Candidate]) -> None:
        """Give the work of their dead to the living, also of groups of which some have died."""

    def loss(self) -> float:
        """The held-out loss as it now is."""

    def saving(self, one: Candidate) -> float:
        """The amount by which its death makes the network smaller, above 0, in any unit."""

    def accept(self) -> None:
        """What was judged last may stay."""

    def undo(self) -> None:
        """Take back what was applied last."""


def search(
    found: Sequence[Candidate], trial: Trial, *, before: float, allowed: float, adapts: bool
) -> tuple[list[GroupVerdict], float]:
    """Apply to *trial* what keeps its loss within *allowed*; what came of each group, and the loss.

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
    """What has been tried so far: ``loss`` with what stands, and the newest verdicts by group."""

    def __init__(self, trial: Trial, before: float, allowed: float) -> None:
        self._trial = trial
        self._allowed = allowed
        self._rise: dict[int, float] = {}  # of the loss, by a group alone
        self._refused = before  # the loss that was last
        self.loss = before
        self.verdicts: dict[int, GroupVerdict] = {}

    def together(self, some: Sequence[tuple[Candidate, float]]) -> bool:
        """Groups at parts of their thresholds, if any; whether the loss allows it."""
        return not some or self._try(some, self._allowed)

    def each(self, some: Sequence[tuple[Candidate, float]]) -> None:
        """Each by itself, if it raises the loss by no more than its share of what is left.

        One may cost what all others together do, and would leave nothing for them. What one
        leaves of its share is for those that matter more, which come later.
        """
        weighed = [(self._weight(one), one, part) for one, part in some]
        ordered = sorted(weighed, key=operator.itemgetter(0))
        for place, (weight, one, part) in enumerate(ordered):
            share = weight / sum(others for others, *_ in ordered[place:])
            self._try([(one, part)], self.loss + share * (self._allowed - self.loss))

    def less(self) -> list[tuple[Candidate, float]]:
        """The refused candidates, each cut down to its share of the loss that is left.

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
        """What goes at such a part of the thresholds, where that is worth it beyond what does."""
        dying = {n: len(v.candidate.removal.removed) for n, v in self.verdicts.items() if v.kept}
        return [
            (one, part)
            for one in worth_it(found, part)
            if len(one.removal.removed) - dying.get(one.number, 0) >= LEAST_SHARE * one.group.width
        ]

    def between(self) -> float:
        """The part below that refused last at which the loss should be what is allowed."""
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
    """The groups of which enough die at this part of their thresholds, with what dies."""
    return [less for one in found if (less := one.at(part)).is_worth_it]


def dead_of(some: Iterable[Candidate]) -> set[int]:
    """The roots of all units that die."""
    return {int(unit) for one in some for unit in one.group.members[one.removal.removed]}
