"""The script of the README loses a rank, and its report is what the reference says."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from docs.pictures import run as picture
from tests.train.runs import execute
from tests.unit.docs.pages import DOCS, ROOT, Field, tables

TYPES: dict[str, tuple[type, ...]] = {
    "int": (int,), "number": (int, float), "string": (str,), "bool": (bool,),
    "list": (list,), "object": (dict,), "null": (type(None),),
}  # fmt: skip


def fits(value: Any, field: Field) -> bool:
    allowed = tuple(t for name in field.types.split(" or ") for t in TYPES[name])
    return isinstance(value, allowed) and (bool in allowed or not isinstance(value, bool))


def wrong(record: dict[str, Any], fields: list[Field]) -> dict[str, Any]:
    return {
        f.name: record[f.name] for f in fields if f.name in record and not fits(record[f.name], f)
    }


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("documented")
    options = ["--report", str(folder / "out"), "--checkpoint", str(folder / "saved")]
    script = ROOT / "examples" / "00_quickstart.py"
    matex = [sys.executable, "-m", "matex", "run", "-n", "3", *options]
    result = execute([*matex, "--inject", "kill:rank=1,step=40", script], directory=folder)
    assert result.returncode == 0, result.stderr
    return folder / "out"


def test_the_summary_is_as_described(report: Path) -> None:
    summary = json.loads((report / "summary.json").read_text())
    pages = tables(DOCS / "reference" / "summary.md")
    for group in ("The run", "What was trained", "The ranks"):
        assert wrong(summary, pages[group]) == {}
    assert wrong(summary["checkpoints"], pages["checkpoints"]) == {}
    (fault,), (lost,) = summary["faults"], summary["ranks_lost"]
    assert wrong(fault, pages["faults"]) == {}
    assert wrong(lost, pages["ranks_lost"]) == {}


def test_each_event_is_as_described(report: Path) -> None:
    pages = tables(DOCS / "reference" / "events.md")
    general = {field.name for field in pages["events.jsonl"]}
    lines = (report / "events.jsonl").read_text().splitlines()
    events = [json.loads(line) for line in lines]
    assert {"start", "fit", "timing", "epoch", "fault", "recovered", "replayed", "checkpoint"} <= {
        event["event"] for event in events
    }
    for event in events:
        fields = pages[event["event"]]
        assert wrong(event, [*pages["events.jsonl"], *fields]) == {}
        if event["event"] != "epoch":  # which has Keras's logs, too
            assert set(event) - general <= {field.name for field in fields}, event


def test_a_picture_can_be_drawn_of_it(report: Path) -> None:
    taken = picture.taken_from(report)
    assert taken["faults"][0]["rank"] == 1
    assert "rank 1 is killed" in picture.draw(taken).written()
