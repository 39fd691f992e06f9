"""Differences between plain pytest and pytest on ranks, beside the known ones."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ci.keras_suite.records import Outcome

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


class Known(NamedTuple):
    """A difference by nature: a test, the ways in which it differs, and why."""

    test: str
    ways: tuple[str, ...]
    reason: str


class Difference(NamedTuple):
    """A test with another outcome than in plain pytest on at least one rank of *way*."""

    way: str
    test: str
    plain: str
    ranks: tuple[str, ...]
    reason: str


def read_known(path: Path) -> list[Known]:
    """The differences listed in *path*.

    Raises:
        ValueError: one is listed twice.
    """
    found = []
    for group in tomllib.loads(path.read_text()).get("group", []):
        ways = tuple(str(way) for way in group["ranks"])
        found += [Known(test, ways, group["reason"]) for test in group["tests"]]
    names = [(known.test, way) for known in found for way in known.ways]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"each difference is listed once. Received: {sorted(twice)}")
    return found


def passed(ways: Sequence[Sequence[Mapping[str, Outcome]]]) -> dict[str, Outcome]:
    """The tests that passed on each rank of each of *ways*: they say nothing against matex."""
    ranks = [outcomes for ranks in ways for outcomes in ranks]
    return {
        test: outcome
        for test, outcome in (ranks[0] if ranks else {}).items()
        if all(test in seen and seen[test].outcome == "passed" for seen in ranks)
    }


def differences(
    way: str, plain: Mapping[str, Outcome], ranks: Sequence[Mapping[str, Outcome]]
) -> list[Difference]:
    """The tests whose outcome on some rank is not that of *plain*."""
    missing = Outcome("missing", 0.0, "no record")
    found = []
    for test in sorted({*plain, *(name for outcomes in ranks for name in outcomes)}):
        seen = [outcomes.get(test, missing) for outcomes in ranks]
        wanted = plain.get(test, missing)
        others = [outcome for outcome in seen if outcome.outcome != wanted.outcome]
        if others:
            reason = others[0].reason or wanted.reason
            names = tuple(outcome.outcome for outcome in seen)
            found.append(Difference(way, test, wanted.outcome, names, reason))
    return found


def judge(
    found: Sequence[Difference], known: Sequence[Known], ran: Mapping[str, set[str]]
) -> tuple[list[Difference], list[Known]]:
    """Differences that are not listed, and listed ones that are no differences any more.

    Args:
        ran: names of the tests that ran, by way.
    """
    listed = {(entry.way, entry.test): entry for entry in _each(known)}
    unlisted = [one for one in found if (one.way, one.test) not in listed]
    there = {(one.way, one.test) for one in found}
    gone = [
        Known(entry.test, (entry.way,), entry.reason)
        for entry in listed.values()
        if entry.test in ran.get(entry.way, set()) and (entry.way, entry.test) not in there
    ]
    return unlisted, gone


class _One(NamedTuple):
    way: str
    test: str
    reason: str


def _each(known: Sequence[Known]) -> list[_One]:
    return [_One(way, entry.test, entry.reason) for entry in known for way in entry.ways]


def causes(found: Sequence[Difference]) -> dict[str, list[Difference]]:
    """The differences by what their reasons have in common, the most frequent first."""
    groups: dict[str, list[Difference]] = {}
    for one in found:
        groups.setdefault(re.sub(r"[\d.]+", "#", one.reason)[:100], []).append(one)
    return dict(sorted(groups.items(), key=lambda group: -len(group[1])))
