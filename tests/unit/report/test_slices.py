"""Slices of one track lie in or behind each other, whatever clocks said."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from matex.report.slices import Slice, Track, nested

TRACK = Track(0, "training")
times = st.tuples(st.integers(0, 40), st.integers(0, 20))


def made(begin: float, end: float, *, track: Track = TRACK, name: str = "step") -> Slice:
    return Slice(track=track, name=name, begin_s=begin, end_s=end, details={"step": 1})


@given(st.lists(times, max_size=12))
def test_of_any_slices_those_of_a_track_nest_and_none_is_lost(found: list[tuple[int, int]]) -> None:
    slices = nested([made(begin, begin + length) for begin, length in found])
    assert [one.begin_s for one in slices] == sorted(begin for begin, _ in found)
    ends: list[float] = []
    for one in slices:
        while ends and ends[-1] <= one.begin_s:
            ends.pop()
        assert not ends or one.end_s <= ends[-1]
        ends.append(one.end_s)


def test_what_outlasts_its_step_is_cut_and_all_else_stays() -> None:
    step, read = made(1.0, 2.0), made(1.5, 2.25, name="read")
    other = made(1.5, 2.25, track=Track(1, "training"))
    assert nested([read, other, step]) == [step, other, made(1.5, 2.0, name="read")]
