"""The judge of a run whose network was cut: it sees the notes and files of all hosts. Pure.

Notes are what each rank wrote after each of its steps (``tests/train/scripts/noted_steps.py``):
``time`` (seconds since the epoch), ``start`` (of the ranks, by the launcher), ``rank``, ``step``
and ``members``. Writes are the events by which ranks tell of files that all of them share.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ci.patience import patience

__all__ = ["Times", "problems", "times", "two_starts", "two_worlds", "two_writers"]

Note = Mapping[str, Any]

#: Within so many seconds after a cut a world goes on, or the run has ended: 40 by the rule.
PAUSE_S = patience(40)
#: From the last step to the end of the launcher: it gives ranks that it cannot reach 40 s, its
#: mpiexec 5, and hosts that it asks 30.
END_S = patience(75)
_ORPHANS_S = 1.0

_STATUS = {"finished": 0, "stopped": 75, "failed": 1}
_WRITES = ("finished", "stopped", "failed", "checkpoint")


class Times(NamedTuple):
    """Seconds: the longest pause between two steps after the cut, and from the last step, or the
    cut if it came later, to the end of the launcher."""

    pause: float
    end: float


def times(notes: Sequence[Note], *, cut_at: float, ended_at: float) -> Times:
    """The times for which the run stood still. *notes* are in order of time."""
    after = [cut_at, *(note["time"] for note in notes if note["time"] > cut_at)]
    pause = max((b - a for a, b in itertools.pairwise(after)), default=0.0)
    return Times(pause, ended_at - after[-1])


def two_worlds(notes: Iterable[Note]) -> str:
    """The two worlds that made steps in one start of the ranks after a network split; else ""."""
    newest: dict[tuple[str, int], tuple[int, ...]] = {}
    for note in notes:
        members = tuple(note["members"])
        newest[note["start"], note["rank"]] = members
        for (start, rank), theirs in newest.items():
            if start != note["start"] or rank == note["rank"]:
                continue
            # One who is not of this world makes a step after this world has split from it.
            if note["rank"] not in theirs and rank not in members:
                return f"ranks {members} and ranks {theirs}"
    return ""


def two_starts(notes: Iterable[Note]) -> str:
    """The rank that made a step after the launcher's next start had made its first; else ""."""
    seen: list[str] = []
    for note in notes:
        if note["start"] not in seen:
            seen.append(note["start"])
        elif note["start"] != seen[-1]:
            return f"rank {note['rank']} of start {seen.index(note['start']) + 1} of {len(seen)}"
    return ""


def two_writers(notes: Iterable[Note], events: Iterable[Note]) -> str:
    """The rank that gave a file a name after a world without it had done so; else "".

    Args:
        events: events of the run, in order of time (``time_s``, since the epoch).
    """
    writes = [
        {"time": event["time_s"], "rank": event["rank"], "what": event["event"]}
        for event in events
        if event["event"] in _WRITES and event.get("tier", "files") == "files"
    ]
    newest: dict[int, tuple[str, tuple[int, ...]]] = {}  # of each rank
    starts: list[str] = []
    written: list[tuple[int, tuple[int, ...]]] = []  # of each world that wrote: start, members
    for entry in sorted([*notes, *writes], key=lambda entry: float(entry["time"])):
        rank = entry["rank"]
        if "what" not in entry:
            newest[rank] = (entry["start"], tuple(entry["members"]))
            if entry["start"] not in starts:
                starts.append(entry["start"])
            continue
        if rank not in newest:
            continue  # the launcher, or before the first step
        token, members = newest[rank]
        start = starts.index(token)
        for when, theirs in written:
            if when > start or (when == start and rank not in theirs):
                return f"rank {rank} ({entry['what']}) after ranks {theirs}"
        written.append((start, members))
    return ""


def problems(
    notes: Sequence[Note],
    events: Sequence[Note],
    summary: Mapping[str, Any] | None,
    *,
    status: int | None,
    taken: Times,
) -> list[str]:
    """Sentences about all that is not as it must be.

    Args:
        summary: ``summary.json``; None where there is none.
        status: exit status of the launcher; None where it had to be ended.
        taken: result of :func:`times`.
    """
    found = []
    if both := two_worlds(notes):
        found.append(f"two worlds made steps: {both}")
    if both := two_starts(notes):
        found.append(f"two starts made steps: {both}")
    if both := two_writers(notes, events):
        found.append(f"two worlds wrote: {both}")
    if taken.pause > PAUSE_S:
        found.append(f"no step for {taken.pause:.1f} s")
    if taken.end < -_ORPHANS_S:
        found.append(f"steps until {-taken.end:.1f} s after the launcher's end")
    if taken.end > END_S:
        found.append(f"no end for {taken.end:.1f} s after the last step")
    if summary is None:
        return [*found, "no summary"]
    state = summary["status"]
    if status != _STATUS[state]:
        found.append(f"status {status} for a run that {state}")
    if state != "finished":
        if not summary["resumable"]:
            found.append(f"{state}, and not resumable")
        return found
    if len(set(summary["weights_hash"].values())) != 1:
        found.append(f"not one hash: {summary['weights_hash']}")
    names = ("samples_expected", "samples_used", "samples_lost", "samples_repeated")
    expected, used, lost, repeated = (summary[name] for name in names)
    if expected != used or lost or repeated:
        found.append(f"samples: {used} of {expected} used, {lost} lost, {repeated} repeated")
    return found
