"""The reference names each event and each field that the code writes."""

from __future__ import annotations

import ast
import functools
from collections import defaultdict

import pytest

from matex.records.fault_records import FIELDS
from matex.records.summary import Totals, summarize
from tests.unit.docs.pages import DOCS, ROOT, tables

EVENTS = tables(DOCS / "reference" / "events.md")
SUMMARY = tables(DOCS / "reference" / "summary.md")


@functools.cache
def written() -> dict[str, set[str]]:
    """Each event that is written with a name in the code, and the fields named there."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in (ROOT / "matex").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            owner = ast.unparse(node.func.value)
            notes = node.func.attr == "note" and owner.endswith("records")
            writes = node.func.attr == "write" and owner.endswith(
                ("events", "_log", "EventLog(events, -1, start=start)")
            )
            if not notes and not writes:
                continue
            if (
                node.args
                and isinstance(node.args[0], ast.Constant)
                and isinstance(node.args[0].value, str)
            ):
                found[node.args[0].value] |= {k.arg for k in node.keywords if k.arg}
                found[node.args[0].value] |= {"step"} if notes else set()
    return found


def test_events_are_found_in_the_code() -> None:
    assert {"start", "fit", "epoch", "recovered", "restart", "checkpoint"} <= set(written())


@pytest.mark.parametrize("event", sorted(written()))
def test_each_event_is_described(event: str) -> None:
    assert event in EVENTS
    assert written()[event] <= {field.name for field in EVENTS[event]}


def test_each_field_of_the_summary_is_described() -> None:
    summary = summarize(
        Totals(world_size_start=1), [], status="finished", reason=None, world_size_end=1,
        weights_hash={}, wall_s=1.0,
    )  # fmt: skip
    groups = ("The run", "What was trained", "The ranks")
    described = {field.name for group in groups for field in SUMMARY[group]}
    assert described | {"checkpoints", "faults"} == set(summary)
    assert {field.name for field in SUMMARY["checkpoints"]} == set(summary["checkpoints"])
    assert [field.name for field in SUMMARY["faults"]] == list(FIELDS)
