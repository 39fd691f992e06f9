"""``trace.json``: the activities of each rank in the Chrome trace event format (Perfetto).

The format: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from matex.records.events import Event, write_text
from matex.records.rank_files import files_of_ranks
from matex.records.shared_files.line_file import read_lines
from matex.records.thinning import thinned
from matex.report.event_slices import counts, instants, lives, works
from matex.report.slices import LAUNCHER, TRACKS, Count, Instant, Slice, nested
from matex.report.step_slices import Parts, Steps, StepSample, chosen_steps, step_slices

__all__ = ["TRACE", "trace", "write_trace"]

TRACE = "trace.json"

# Of each rank, and of all ranks together: some thousand slices a rank, and few hundred thousand.
_STEPS = 1000
_STEPS_OF_ALL = 20_000
_FEWEST_STEPS = 50
# Of each other thing on a track of a rank.
_OTHERS = 1000


def write_trace(report: Path, events: Sequence[Event]) -> None:
    """Join *events* and the parts of the ranks in *report* to one file there.

    Args:
        events: events of the whole job, in order of time.

    Raises:
        OSError: a part cannot be read, or the trace not be written.
    """
    paths = files_of_ranks(report, ".trace")
    parts = {rank: _samples_in(path) for rank, path in paths.items()}
    write_text(report / TRACE, _text_of(trace(events, parts)))


def _text_of(content: Any) -> str:
    return json.dumps(content, separators=(",", ":"), allow_nan=False) + "\n"


def _samples_in(path: Path) -> list[StepSample]:
    """Samples of a part, in order of time; duplicates, written on a full disk, are dropped."""
    return sorted({StepSample.of(line) for line in read_lines(path)}, key=lambda one: one.begin_s)


def trace(events: Sequence[Event], parts: Parts) -> dict[str, Any]:
    """The content of the file. Pure.

    A rank is a process, whose number is one more than the rank's, because 0 means another thing to
    Perfetto; the last process is the launcher. Times are microseconds since the first event.

    Args:
        events: events of the whole job, in order of time.
    """
    hosts = _hosts(events)
    most = max(_FEWEST_STEPS, min(_STEPS, _STEPS_OF_ALL // max(1, len(hosts))))
    steps = chosen_steps(parts, limit=most)
    others, left_out = _limited([*lives(events), *works(events), *instants(events)])
    slices = [*step_slices(steps.parts), *(one for one in others if isinstance(one, Slice))]
    moments = [one for one in others if isinstance(one, Instant)]
    points = thinned(list(counts(events)), limit=2 * _OTHERS)
    times = [one.begin_s for one in slices] + [event["time_s"] for event in events]
    writer = _Writer(min(times, default=0.0), hosts)
    marks = [
        *map(writer.slice, nested(slices)),
        *map(writer.instant, moments),
        *map(writer.count, points),
    ]
    marks.sort(key=lambda mark: (mark["ts"], -mark.get("dur", 0)))
    return {
        "traceEvents": [*writer.names(marks), *marks],
        "displayTimeUnit": "ms",
        "otherData": _about(writer.origin_s, steps, left_out),
    }


def _limited(
    marks: Iterable[Slice | Instant],
) -> tuple[list[Slice | Instant], dict[str, int]]:
    """Marks, at most *most* of each name on a track, and the number of dropped ones."""
    by_name: defaultdict[Any, list[Slice | Instant]] = defaultdict(list)
    for mark in marks:
        by_name[mark.track, mark.name].append(mark)
    kept: list[Slice | Instant] = []
    left_out: defaultdict[str, int] = defaultdict(int)
    for (_, name), found in by_name.items():
        chosen = thinned(found, limit=_OTHERS)
        kept += chosen
        if len(chosen) < len(found):
            left_out[name] += len(found) - len(chosen)
    return kept, dict(left_out)


def _hosts(events: Sequence[Event]) -> dict[int, str]:
    """Host of the last start of each rank."""
    return {event["rank"]: event["host"] for event in events if event["event"] == "start"}


def _about(origin_s: float, steps: Steps, left_out: Mapping[str, int]) -> dict[str, Any]:
    shown = "each step" if steps.every == 1 else f"each {steps.every}th step"
    return {
        "started_unix_s": round(origin_s, 6),
        "clock": "wall-clock time of each host",
        "steps_shown": f"{shown}, and those that a death interrupted",
        "every": steps.every,
        "left_out": dict(left_out),
    }


class _Writer:
    """Marks in the trace format. Pure.

    Args:
        origin_s: Unix time that is 0 in the file.
        hosts: host of each rank.
    """

    def __init__(self, origin_s: float, hosts: Mapping[int, str]) -> None:
        self.origin_s = origin_s
        self._hosts = hosts
        self._launcher = max(hosts, default=0) + 2

    def slice(self, one: Slice) -> dict[str, Any]:
        begin = self._us(one.begin_s)
        return {
            "ph": "X",
            "name": one.name,
            "ts": begin,
            "dur": max(0, self._us(one.end_s) - begin),
            "pid": self._pid(one.track.rank),
            "tid": _tid(one.track.name),
            **_args(one.details),
        }

    def instant(self, one: Instant) -> dict[str, Any]:
        return {
            "ph": "i",
            "name": one.name,
            "ts": self._us(one.time_s),
            "pid": self._pid(one.track.rank),
            "tid": _tid(one.track.name),
            "s": "g" if one.concerns_all else "t",
            **_args(one.details),
        }

    def count(self, one: Count) -> dict[str, Any]:
        return {
            "ph": "C",
            "name": one.name,
            "ts": self._us(one.time_s),
            "pid": self._launcher,
            "args": {one.name: one.value},
        }

    def names(self, marks: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Names of all processes, and of the tracks that *marks* use."""
        used = sorted({(mark["pid"], mark["tid"]) for mark in marks if "tid" in mark})
        pids = sorted({*map(self._pid, self._hosts), self._launcher, *(pid for pid, _ in used)})
        found = []
        for pid in pids:
            rank = pid - 1
            is_launcher = pid == self._launcher
            host = f" ({self._hosts[rank]})" if rank in self._hosts else ""
            name = "the run" if is_launcher else f"rank {rank}{host}"
            found.append(_named("process_name", pid, name=name))
            order = LAUNCHER if is_launcher else rank
            found.append(_named("process_sort_index", pid, sort_index=order))
        for pid, tid in used:
            found.append(_named("thread_name", pid, tid, name=TRACKS[tid - 1]))
            found.append(_named("thread_sort_index", pid, tid, sort_index=tid))
        return found

    def _pid(self, rank: int) -> int:
        return self._launcher if rank == LAUNCHER else rank + 1

    def _us(self, time_s: float) -> int:
        return max(0, round((time_s - self.origin_s) * 1e6))


def _named(kind: str, pid: int, tid: int | None = None, **args: Any) -> dict[str, Any]:
    of_thread = {} if tid is None else {"tid": tid}
    return {"ph": "M", "name": kind, "pid": pid, **of_thread, "args": args}


def _tid(track: str) -> int:
    return TRACKS.index(track) + 1


def _args(details: Mapping[str, Any]) -> dict[str, Any]:
    return {"args": _plain(details)} if details else {}


def _plain(value: Any) -> Any:
    """*value* for JSON, which cannot express non-finite numbers."""
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
