"""How much of what may die does: a search that asks the held-out loss as seldom as it can.

All groups at once at the cost of their thresholds. Where the loss rises too far each group by
itself, and less of those for which it still does; where it hardly rises, more, and then more of
each by itself.
A group dies in one order, so what dies at less is part of what dies at more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from matex.apoptosis.evidence import Removal
from matex.apoptosis.schedule import LEAST_SHARE, LESS, MORE
from matex.apoptosis.trace import Group

__all__ = ["Candidate", "Trial", "Verdict", "search"]


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


class Verdict(NamedTuple):
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

    def accept(self) -> None:
        """What was judged last may stay."""

    def undo(self) -> None:
        """Take back what was applied last."""


def search(
    found: Sequence[Candidate], trial: Trial, *, before: float, allowed: float, adapts: bool
) -> list[Verdict]:
    """Apply to *trial* what keeps its loss within *allowed*; what came of each group.

    Args:
        before: the loss without any removal.
        adapts: whether more than the thresholds may go.
    """
    whole = _worth_it(found, 1.0)
    loss = _tried(whole, trial, allowed) if whole else before
    if loss <= allowed:
        verdicts = {one.number: Verdict(one, 1.0, loss, True) for one in whole}
        if adapts and loss - before <= LESS * (allowed - before) and math.isfinite(allowed):
            verdicts |= _more(found, verdicts, trial, loss, allowed)
        return list(verdicts.values())
    verdicts = {one.number: Verdict(one, 1.0, loss, False) for one in whole}
    if len(whole) > 1:
        verdicts |= _each(whole, 1.0, trial, before, allowed)
    less = _worth_it([one for one in whole if not verdicts[one.number].kept], LESS)
    standing = [verdict.loss for verdict in verdicts.values() if verdict.kept]
    if less and standing:
        verdicts |= _each(less, LESS, trial, standing[-1], allowed)
    elif less:
        loss = _tried(less, trial, allowed)
        verdicts |= {one.number: Verdict(one, LESS, loss, loss <= allowed) for one in less}
    return list(verdicts.values())


def _more(
    found: Sequence[Candidate],
    verdicts: Mapping[int, Verdict],
    trial: Trial,
    loss: float,
    allowed: float,
) -> dict[int, Verdict]:
    """What goes at more than the thresholds, on top of *verdicts*, which stand at *loss*."""
    dying = {number: len(v.candidate.removal.removed) for number, v in verdicts.items()}

    def gain(one: Candidate) -> int:
        return len(one.removal.removed) - dying.get(one.number, 0)

    more = [one for one in _worth_it(found, MORE) if gain(one) >= LEAST_SHARE * one.group.width]
    if not more:
        return {}
    together = _tried(more, trial, allowed)
    if together <= allowed:
        return {one.number: Verdict(one, MORE, together, True) for one in more}
    if len(more) == 1:
        return {}
    each = _each(more, MORE, trial, loss, allowed)
    return {number: verdict for number, verdict in each.items() if verdict.kept}


def _each(
    some: Sequence[Candidate], part: float, trial: Trial, loss: float, allowed: float
) -> dict[int, Verdict]:
    """Each group by itself, if it raises *loss* by no more than its part of what is left.

    One may cost what all others together do not, and would leave nothing for them.
    """
    result: dict[int, Verdict] = {}
    ordered = sorted(some, key=lambda one: len(one.removal.removed), reverse=True)
    for place, one in enumerate(ordered):
        limit = loss + (allowed - loss) / (len(ordered) - place)
        now = _tried([one], trial, limit)
        result[one.number] = Verdict(one, part, now, now <= limit)
        if now <= limit:
            loss = now
    return result


def _worth_it(found: Sequence[Candidate], part: float) -> list[Candidate]:
    return [less for one in found if (less := one.at(part)).is_worth_it]


def _tried(some: Sequence[Candidate], trial: Trial, allowed: float) -> float:
    """The loss with *some* applied; they stay so only where it is allowed."""
    trial.apply(some)
    loss = trial.loss()
    if loss <= allowed:
        trial.accept()
    else:
        trial.undo()
    return loss
