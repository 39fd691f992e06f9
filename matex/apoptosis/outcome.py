"""Outcome of one event, and the change of each group of units."""

from __future__ import annotations

from typing import NamedTuple

from matex.apoptosis.search import GroupVerdict

__all__ = ["Change", "Outcome", "change_of"]


class Change(NamedTuple):
    """Change of one group."""

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
    """The outcome of an event."""

    changes: list[Change]
    groups: tuple[int, ...]
    """Units of each group that may lose some, before the event."""
    loss_before: float
    loss_after: float
    loss_allowed: float | None
    """Limit of the loss; None for no limit."""
    at_risk: float | None
    """At most this share of held-out predictions has changed; None where nothing is classified."""
    parameters: tuple[int, int]
    flops: tuple[float, float]
    left_alone: dict[str, str]
    """Layers, or layers that go together, and why nothing of them can go."""
    refused: tuple[str, ...]
    """Layers whose units were cut, found to be needed by something unknown, and put back."""
    has_loss: bool = True
    """Whether the model has a loss of the held-out rows; else losses are 0, and limit nothing."""

    @property
    def changed(self) -> bool:
        return any(change.kept for change in self.changes)

    @property
    def totals(self) -> str:
        """Text about the numbers of removed units, over all groups."""
        if not self.changes:
            return "no unit removed"
        kept = [change for change in self.changes if change.kept]
        gone = sum(change.units_from - change.units_to for change in kept)
        count = len(self.groups)
        groups = f"{count} group{'s' * (count != 1)}"
        return f"{gone:,} of {sum(self.groups):,} units gone, in {len(kept)} of {groups}"

    @property
    def gone(self) -> float:
        """The part of the parameters that went."""
        before, after = self.parameters
        return 1 - after / max(before, 1)


def change_of(verdict: GroupVerdict) -> Change:
    """Change of a group, from the search's verdict. Pure."""
    group, removal = verdict.candidate.group, verdict.candidate.removal
    left = len(removal.kept)
    return Change(
        group.name, group.width, left, removal.cost, verdict.loss, verdict.kept, verdict.part
    )
