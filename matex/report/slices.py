"""The marks of a trace: slices and instants on the tracks of ranks. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

__all__ = ["LAUNCHER", "TRACKS", "Count", "Instant", "Slice", "Track", "nested"]

#: The rank that the launcher's events have.
LAUNCHER = -1

#: The tracks of a rank, from above.
TRACKS = ("life", "training", "recovery", "checkpoints", "apoptosis")


class Track(NamedTuple):
    """A track: ``name`` is one of :data:`TRACKS`."""

    rank: int
    name: str


@dataclass(frozen=True, kw_only=True)
class Slice:
    """Something that lasted; times are Unix times in seconds."""

    track: Track
    name: str
    begin_s: float
    end_s: float
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Instant:
    """A moment at which something happened, to all ranks if ``concerns_all``."""

    track: Track
    name: str
    time_s: float
    details: Mapping[str, Any] = field(default_factory=dict)
    concerns_all: bool = False


class Count(NamedTuple):
    """Value of a run's curve *name* from this time on."""

    name: str
    time_s: float
    value: float


def nested(slices: Iterable[Slice]) -> list[Slice]:
    """*slices* in order of their beginnings; slices of a track are nested or disjoint.

    One that outlasts another in which it began, be it by a rounded microsecond, is cut there. Of
    two that begin together the longer one comes first.
    """
    ordered = sorted(slices, key=lambda one: (one.track, one.begin_s, -one.end_s))
    ends: list[float] = []
    found: list[Slice] = []
    for number, one in enumerate(ordered):
        if number == 0 or ordered[number - 1].track != one.track:
            ends = []
        while ends and ends[-1] <= one.begin_s:
            ends.pop()
        end = min([one.end_s, *ends[-1:]])
        ends.append(end)
        found.append(_until(one, end))
    return sorted(found, key=lambda one: (one.begin_s, one.begin_s - one.end_s))


def _until(one: Slice, end_s: float) -> Slice:
    if end_s == one.end_s:
        return one
    return Slice(
        track=one.track, name=one.name, begin_s=one.begin_s, end_s=end_s, details=one.details
    )
