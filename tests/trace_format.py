"""Check that a trace is in the Chrome trace event format, as strictly as its document says it.

https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

__all__ = ["check_format", "read_trace", "slices_of", "tracks_of"]

Mark = dict[str, Any]

# Phase → the fields that it must have, and those that it may have.
_FIELDS: dict[str, tuple[set[str], set[str]]] = {
    "X": ({"ph", "name", "ts", "dur", "pid", "tid"}, {"args"}),
    "i": ({"ph", "name", "ts", "pid", "tid", "s"}, {"args"}),
    "C": ({"ph", "name", "ts", "pid", "args"}, set()),
    "M": ({"ph", "name", "pid", "args"}, {"tid"}),
}
_METADATA = {
    "process_name": "name",
    "thread_name": "name",
    "process_sort_index": "sort_index",
    "thread_sort_index": "sort_index",
}


def read_trace(path: Path) -> dict[str, Any]:
    """The trace in *path*, which must be JSON without NaN, and in the format."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    content: dict[str, Any] = json.loads(path.read_text(), parse_constant=refuse)
    check_format(content)
    return content


def check_format(content: dict[str, Any]) -> None:
    """Fail where *content* is not in the format, or slices of one track do not nest."""
    assert set(content) <= {"traceEvents", "displayTimeUnit", "otherData"}
    assert content["displayTimeUnit"] in ("ms", "ns")
    marks: list[Mark] = content["traceEvents"]
    for mark in marks:
        _check_fields(mark)
    times = [mark["ts"] for mark in marks if mark["ph"] != "M"]
    assert times == sorted(times)
    assert marks[: len(marks) - len(times)] == [mark for mark in marks if mark["ph"] == "M"]
    for slices in slices_of(content).values():
        _check_nesting(slices)
    named = {(mark["name"], mark["pid"], mark.get("tid")) for mark in marks if mark["ph"] == "M"}
    assert len(named) == sum(mark["ph"] == "M" for mark in marks)
    for mark in marks:
        if mark["ph"] != "M":
            assert ("process_name", mark["pid"], None) in named
        if "tid" in mark and mark["ph"] != "M":
            assert ("thread_name", mark["pid"], mark["tid"]) in named


def _check_fields(mark: Mark) -> None:
    must, may = _FIELDS[mark["ph"]]
    assert must <= set(mark) <= must | may, mark
    assert isinstance(mark["name"], str) and mark["name"]
    for field in ("ts", "dur"):
        assert isinstance(mark.get(field, 0), int) and mark.get(field, 0) >= 0
    for field in ("pid", "tid"):
        assert isinstance(mark.get(field, 1), int) and mark.get(field, 1) > 0
    assert isinstance(mark.get("args", {}), dict)
    if mark["ph"] == "i":
        assert mark["s"] in ("g", "p", "t")
    if mark["ph"] == "C":
        assert all(isinstance(value, int | float) for value in mark["args"].values())
    if mark["ph"] == "M":
        assert list(mark["args"]) == [_METADATA[mark["name"]]]


def _check_nesting(slices: list[Mark]) -> None:
    """Fail unless each slice lies in or behind the ones before it."""
    ends: list[int] = []
    for mark in slices:
        while ends and ends[-1] <= mark["ts"]:
            ends.pop()
        end = mark["ts"] + mark["dur"]
        assert not ends or end <= ends[-1], mark
        ends.append(end)


def slices_of(content: dict[str, Any]) -> dict[tuple[int, int], list[Mark]]:
    """(Process, thread) → its slices, in the order of the file."""
    found: defaultdict[tuple[int, int], list[Mark]] = defaultdict(list)
    for mark in content["traceEvents"]:
        if mark["ph"] == "X":
            found[mark["pid"], mark["tid"]].append(mark)
    return found


def tracks_of(content: dict[str, Any]) -> dict[tuple[str, str], list[Mark]]:
    """(Process, thread), by their names → its slices and instants, in the order of the file."""
    names: dict[tuple[int, int | None], str] = {
        (mark["pid"], mark.get("tid")): mark["args"]["name"]
        for mark in content["traceEvents"]
        if mark["name"] in ("process_name", "thread_name")
    }
    found: defaultdict[tuple[str, str], list[Mark]] = defaultdict(list)
    for mark in content["traceEvents"]:
        if mark["ph"] in ("X", "i"):
            found[names[mark["pid"], None], names[mark["pid"], mark["tid"]]].append(mark)
    return found
