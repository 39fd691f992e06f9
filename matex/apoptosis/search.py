"""How much of what may die does: a search that asks the held-out loss as seldom as it can.

All groups at once at the cost of their thresholds. Where the loss rises too far less is tried,
and then each group by itself; where it hardly rises, more, and then more of each by itself.
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
    less = _worth_it(whole, LESS)
    verdicts = {one.number: Verdict(one, 1.0, loss, False) for one in whole}
    loss = _tried(less, trial, allowed) if less else allowed
    for one in less:
        if loss > allowed and len(less) > 1:
            alone = _tried([one], trial, allowed)
            verdicts[one.number] = Verdict(one, LESS, alone, alone <= allowed)
        else:
            verdicts[one.number] = Verdict(one, LESS, loss, loss <= allowed)
    return list(verdicts.values())


def _more(
    found: Sequence[Candidate],
    verdicts: Mapping[int, Verdict],
    trial: Trial,
    loss: float,
    allowed: float,
) -> dict[int, Verdict]:
    """What goes at more than the thresholds, on top of *verdicts*, which stand at *loss*.

    All groups at once, or each by itself, the largest gain first, if it raises the loss by no
    more than its part of what is left: one may cost what all others together do not.
    """
    gains = {
        one.number: len(one.removal.removed) for one in (v.candidate for v in verdicts.values())
    }

    def gain(one: Candidate) -> int:
        return len(one.removal.removed) - gains.get(one.number, 0)

    more = [one for one in _worth_it(found, MORE) if gain(one) >= LEAST_SHARE * one.group.width]
    if not more:
        return {}
    together = _tried(more, trial, allowed)
    if together <= allowed or len(more) == 1:
        return {
            one.number: Verdict(one, MORE, together, True) for one in more if together <= allowed
        }
    result: dict[int, Verdict] = {}
    more.sort(key=gain, reverse=True)
    for place, one in enumerate(more if len(more) > 1 else []):
        limit = loss + (allowed - loss) / (len(more) - place)
        now = _tried([one], trial, limit)
        if now <= limit:
            loss = now
            result[one.number] = Verdict(one, MORE, loss, True)
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
