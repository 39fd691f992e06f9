"""Files that programs read hold JSON of its standard, also where a metric is no number any more."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import NoReturn

from matex.records.events import EventLog, read_events, write_json
from matex.records.json_text import to_json


def refuse(constant: str) -> NoReturn:
    raise AssertionError(f"{constant} is no JSON")


def test_what_is_not_finite_is_null() -> None:
    content = {"a": [1.5, math.nan, (math.inf, {"b": -math.inf})], "c": "NaN", "d": 7, "e": None}
    text = to_json(content)
    assert json.loads(text, parse_constant=refuse) == {
        "a": [1.5, None, [None, {"b": None}]], "c": "NaN", "d": 7, "e": None,
    }  # fmt: skip
    assert to_json({"a": [0.1, 1e-300]}, indent=2) == json.dumps({"a": [0.1, 1e-300]}, indent=2)


def test_files_of_a_run_hold_none_of_it(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    log = EventLog(path, rank=0)
    log.write("epoch", epoch=0, step=5, loss=math.inf, accuracy=0.5)
    log.write("epoch", epoch=1, step=9, loss=0.25, accuracy=math.nan)
    first, second = (json.loads(x, parse_constant=refuse) for x in path.read_text().splitlines())
    assert (first["loss"], first["accuracy"], second["accuracy"]) == (None, 0.5, None)
    read = read_events(path)
    assert math.isnan(read[0]["loss"]) and math.isnan(read[1]["accuracy"])
    assert (read[0]["accuracy"], read[1]["loss"]) == (0.5, 0.25)
    write_json(tmp_path / "summary.json", {"metrics": {"loss": math.nan}})
    text = (tmp_path / "summary.json").read_text()
    assert json.loads(text, parse_constant=refuse) == {"metrics": {"loss": None}}
