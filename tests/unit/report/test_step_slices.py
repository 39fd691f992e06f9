"""The parts of a step in the trace, from the line that a rank wrote."""

from __future__ import annotations

from typing import Any

from matex.report.slices import Slice
from matex.report.step_slices import StepSample, chosen_steps, step_slices


def sample(number: int, begin_s: float = 100.0, **fields: Any) -> StepSample:
    line = {"name": "step", "number": number, "every": 1, "begin_s": begin_s, "us": 1_000_000}
    return StepSample.of({**line, **fields})


def shown(slices: list[Slice], rank: int) -> list[tuple[str, float, float]]:
    found = [one for one in slices if one.track.rank == rank]
    return [(one.name, one.begin_s, one.end_s) for one in found]


def test_a_step_is_read_compute_exchange_and_update() -> None:
    times = {"read": [[-250_000, 125_000], [0, 125_000]], "exchange": [[500_000, 250_000]]}
    assert shown(list(step_slices({2: [sample(7, **times)]})), 2) == [
        ("step", 100.0, 101.0),
        ("read", 99.75, 99.875),
        ("read", 100.0, 100.125),
        ("exchange", 100.5, 100.75),
        ("compute", 100.125, 100.5),
        ("update", 100.75, 101.0),
    ]


def test_several_exchanges_have_computing_between_them() -> None:
    times = {"read": [], "exchange": [[250_000, 125_000], [500_000, 125_000]]}
    found = shown(list(step_slices({0: [sample(7, **times)]})), 0)
    computing = [one for one in found if one[0] in ("compute", "update")]
    assert computing == [
        ("compute", 100.0, 100.25), ("compute", 100.375, 100.5), ("update", 100.625, 101.0),
    ]  # fmt: skip


def test_who_comes_early_waits_for_the_last_in_the_same_step() -> None:
    parts = {
        rank: [
            sample(7, exchange=[[at, 900_000 - at]], read=[]),
            sample(7, 500.0, exchange=[[at // 2, 900_000 - at // 2]], read=[]),  # made again
        ]
        for rank, at in ((0, 250_000), (1, 750_000), (2, 500_000))
    }
    waits = [one for one in step_slices(parts) if one.name == "wait"]
    assert [(w.track.rank, w.begin_s, w.end_s, w.details) for w in waits] == [
        (0, 100.25, 100.75, {"rank": 1}),
        (0, 500.125, 500.375, {"rank": 1}),
        (2, 100.5, 100.75, {"rank": 1}),
        (2, 500.25, 500.375, {"rank": 1}),
    ]


def test_of_an_interrupted_step_what_was_computed_is_not_known() -> None:
    times = {"read": [], "exchange": [[500_000, 250_000]], "interrupted": []}
    found = shown(list(step_slices({0: [sample(7, **times)]})), 0)
    assert [name for name, _, _ in found] == ["step", "exchange"]


def test_ranks_show_the_same_steps_and_not_too_many() -> None:
    parts = {
        0: [sample(number, every=2) for number in range(0, 64, 2)],
        1: [sample(number, every=4) for number in range(0, 64, 4)],
    }
    parts[0].append(sample(63, interrupted=[]))
    parts[0].append(sample(1, name="validation"))
    assert chosen_steps(parts, limit=100).every == 4
    steps = chosen_steps(parts, limit=5)
    assert steps.every == 16
    assert [one.number for one in steps.parts[1]] == [0, 16, 32, 48]
    assert [one.number for one in steps.parts[0]] == [0, 16, 32, 48, 63, 1]
