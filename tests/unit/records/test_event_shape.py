"""Events that lack a field, or have one of another kind, are none for the view."""

from __future__ import annotations

from typing import Any

import pytest

from matex.records.event_shape import NEEDED, OPTIONAL, is_event, is_well_formed
from matex.top.run_view import _HANDLERS, view_of
from matex.top.words import _WORDS
from tests.unit.docs.pages import DOCS, tables
from tests.unit.top.events import event, fit, progress, recovered, starts

#: A value of each type that the reference names.
_VALUES: dict[str, Any] = {
    "int": 1,
    "number": 0.5,
    "string": "x",
    "bool": True,
    "list": [],
    "object": {},
    "null": None,
}


@pytest.mark.parametrize("name", NEEDED)
def test_an_event_as_the_reference_describes_it_is_well_formed(name: str) -> None:
    types = {
        field.name: field.types.split(" or ")
        for field in tables(DOCS / "reference" / "events.md")[name]
        if name != "fit" or field.name != "whole"
    }
    if name in ("stopped", "failed"):
        assert "reason" in types
    optional = OPTIONAL.get(name, {}).keys() & types.keys()
    assert NEEDED[name].keys() <= types.keys()
    for last in (0, -1):  # the first type of each field, and the last
        whole = event(1.0, 0, name, **{field: _VALUES[of[last]] for field, of in types.items()})
        assert is_well_formed(whole)
        for field in [*NEEDED[name], *optional]:
            assert not is_well_formed({**whole, field: [{}]})
        for field in NEEDED[name]:
            less = {key: value for key, value in whole.items() if key != field}
            assert is_well_formed(less) == (name == "fit" and field == "epochs")
        assert is_well_formed({key: v for key, v in whole.items() if key not in optional})


def test_all_events_that_are_heard_or_told_of_are_checked() -> None:
    assert {*_HANDLERS, *_WORDS} - NEEDED.keys() == {"continued", "balance", "waits", "first-step"}


def repr_of(value: object) -> str:
    return repr(value)[:9]


@pytest.mark.parametrize(
    "time_s", ["1.0", None, True, float("nan"), float("inf"), 1e300, pow(10, 400)], ids=repr_of
)
def test_a_time_is_one_of_a_day(time_s: object) -> None:
    assert not is_event({"time_s": time_s, "rank": 0, "event": "epoch"})
    assert is_event({"time_s": 1.0, "rank": 0, "event": "epoch"})


@pytest.mark.parametrize(("rank", "name"), [("0", "start"), (None, "start"), (0, ["start"])])
def test_ranks_and_names_are_of_their_kinds(rank: object, name: object) -> None:
    assert not is_event({"time_s": 1.0, "rank": rank, "event": name})


def test_the_view_passes_over_what_is_no_event() -> None:
    whole = progress(1.0, 9, samples=90)
    damaged = [
        {key: value for key, value in whole.items() if key != "step"},
        {**progress(1.0, 500, samples=1), "samples": "x"},
        fit(0.5, batch_size=0),
        recovered(0.5, 0, lost=[1], joined={"x": 2}),
        {**progress(0.5, 500, samples=1), "loss": pow(10, 400)},
        event(0.5, 0, "apoptosis", epoch=1, changes=[1], parameters=1, parameters_before=2),
    ]
    metrics = event(0.6, 0, "epoch", epoch=0, step=8, loss=None, auc=pow(10, 400), mae=0.5)
    view = view_of([*starts(3), *damaged, metrics, whole])
    assert (view.step, view.samples, view.fit, list(view.news)) == (10, 90, None, [])
    assert (view.loss, view.metrics) == ([0.5], {"mae": [0.5]})
    assert view.ranks[1].state.lives
