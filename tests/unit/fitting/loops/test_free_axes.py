"""Axes along which batches differ in size: which are open, and for how long."""

from __future__ import annotations

from matex.fitting.loops.free_axes import FreeAxes, every_axis, masked


def test_axes_in_which_a_later_batch_differs_stay_open() -> None:
    axes = FreeAxes()
    assert axes.of(((7, 3), ())) == frozenset()
    assert axes.of(((7, 3), ())) == frozenset()
    assert axes.of(((9, 3), ())) == {(0, 1)}
    assert axes.of(((7, 3), ())) == {(0, 1)}
    assert axes.of(((7, 4), ())) == {(0, 1), (0, 2)}


def test_refused_axes_stay_fixed() -> None:
    axes = FreeAxes()
    axes.of(((7,),))
    assert axes.of(((8,),)) == {(0, 1)}
    axes.refuse()
    assert axes.of(((8,),)) == axes.of(((9,),)) == frozenset()


def test_sizes_along_free_axes_make_no_form() -> None:
    sizes = ((7, 3), (), (5,))
    assert masked(sizes, frozenset({(0, 1), (2, 1)})) == ((None, 3), (), (None,))
    assert masked(sizes, every_axis(sizes)) == ((None, None), (), (None,))
