"""The judge of Keras's own tests: what differs, what is listed, and what a lost rank leaves."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from ci.keras_suite import absent, compare, records
from ci.keras_suite.__main__ import LISTED


def _outcomes(**outcomes: str) -> dict[str, Any]:
    make = records.Outcome
    return {name: make(outcome, 0.1, f"why {name}") for name, outcome in outcomes.items()}


def test_a_test_differs_where_one_rank_does() -> None:
    plain = _outcomes(a="passed", b="passed", c="failed", d="passed")
    ranks = [
        _outcomes(a="passed", b="passed", c="failed", d="passed"),
        _outcomes(a="passed", b="lost", c="failed"),
    ]
    found = compare.differences("2", plain, ranks)
    assert [(one.test, one.plain, one.ranks) for one in found] == [
        ("b", "passed", ("passed", "lost")),
        ("d", "passed", ("passed", "missing")),
    ]


def test_what_passes_on_every_rank_needs_no_plain_pytest() -> None:
    one = [_outcomes(a="passed", b="passed", c="skipped", d="passed")]
    two = [
        _outcomes(a="passed", b="passed", c="skipped", d="passed"),
        _outcomes(a="passed", b="hung", c="skipped"),
    ]
    assert set(compare.passed([one, two])) == {"a"}
    assert compare.passed([]) == {}


def test_only_what_is_listed_may_differ_and_only_as_long_as_it_does() -> None:
    plain = _outcomes(a="passed", b="passed", c="passed")
    found = compare.differences("1", plain, [_outcomes(a="failed", b="failed", c="passed")])
    known = [compare.Known(test, ("1", "2"), "by nature") for test in ("a", "c", "elsewhere")]
    unlisted, gone = compare.judge(found, known, {"1": {"a", "b", "c"}})
    assert [one.test for one in unlisted] == ["b"]
    assert [entry.test for entry in gone] == ["c"]


def test_the_list_of_differences_is_well_formed() -> None:
    known = compare.read_known(LISTED)
    assert all(entry.reason and set(entry.ways) <= {"1", "2"} for entry in known)
    assert sum("1" in entry.ways for entry in known) <= 15


def test_a_difference_is_listed_once(tmp_path: Path) -> None:
    listed = tmp_path / "differences.toml"
    group = '[[group]]\nreason = "x"\nranks = [1, 2]\ntests = ["a"]\n'
    listed.write_text(group * 2)
    with pytest.raises(ValueError, match="each difference is listed once"):
        compare.read_known(listed)


def test_a_rank_that_is_lost_in_a_test_has_begun_it_only(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    lines = [
        {"test": "a"},
        {"test": "a", "outcome": "passed", "seconds": 1.0, "reason": ""},
        {"test": "b"},
    ]
    found = records.Records(path)
    assert not found.read()
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"test": "b", "outc')
    assert found.read()
    assert (set(found.done), found.running, found.ended) == ({"a"}, "b", False)
    assert not found.read()


def test_names_give_the_same_seeds_everywhere() -> None:
    seeds = records.Seeds
    first, again, other = seeds("a"), seeds("a"), seeds("b")
    assert [first.next(), first.next()] == [again.next(), again.next()]
    assert first.next() != other.next()


def test_an_absent_package_can_be_imported_and_its_use_skips() -> None:
    with absent.stand_ins(["not_here"]):
        source = importlib.import_module("not_here.data")
    assert "not_here" not in sys.modules
    derived = type("Derived", (source.Dataset,), {})
    assert not isinstance(1, source.Dataset)
    for made in (derived, source.Dataset, source.inner.Loader):
        with pytest.raises(pytest.skip.Exception, match="not_here is not installed"):
            made()
