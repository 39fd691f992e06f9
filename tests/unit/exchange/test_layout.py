"""The parts of the exchanged vector: aligned, without overlap, found again and named."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from matex.exchange.layout import ALIGNMENT, Header, Layout, Segment, header_of, segment_of

shapes = st.lists(st.integers(0, 5), max_size=3).map(tuple)
dtypes = st.sampled_from(["float16", "bfloat16", "float32", "float64"])
segments = st.lists(st.builds(Segment, st.text(max_size=5), shapes, dtypes), max_size=4).map(tuple)
layouts = st.builds(Layout, gradients=segments, means=segments, sums=segments)


def small(*dtypes: str) -> Layout:
    return Layout(
        gradients=tuple(Segment(f"gradient {d}", (3, 2), d) for d in dtypes),
        means=(Segment("mean", (4,), "float32"),),
        sums=(Segment("sum", (), "float32"), Segment("table", (2, 2), "float32")),
    )


@given(layouts)
def test_parts_are_aligned_and_do_not_overlap(layout: Layout) -> None:
    starts, sizes = layout.offsets, [prod(shape) for shape in layout.shapes]
    assert len(starts) == len(layout.gradients) + 2
    assert all(start * layout.dtype.itemsize % ALIGNMENT == 0 for start in starts)
    for (start, end), size in zip(pairwise(starts), sizes, strict=True):
        assert 0 <= end - start - size < ALIGNMENT // layout.dtype.itemsize
    assert layout.size == starts[-1]


@given(layouts)
def test_views_are_the_vector_itself_and_leave_only_the_gaps(layout: Layout) -> None:
    vector = np.zeros(layout.size, layout.dtype)
    views = layout.views(vector)
    assert [view.shape for view in views] == layout.shapes
    for view in views:
        assert not view.any()
        np.add(view, 1, out=view)
    assert vector.sum() == sum(view.size for view in views)
    assert views[-1].size == sum(layout.auxiliary_sizes)


def test_sizes_of_a_small_layout() -> None:
    layout = small("float32")
    assert layout.auxiliary_sizes == [4, 1, 4, len(Header._fields)]
    assert layout.shapes == [(3, 2), (9 + len(Header._fields),)]
    assert layout.offsets == [0, 16, 48]
    assert small("float64").offsets == [0, 8, 32]


@pytest.mark.parametrize(
    ("dtypes", "wanted"),
    [
        (("float32",), "float32"),
        (("float16", "bfloat16"), "float32"),
        (("float32", "float64"), "float64"),
        ((), "float32"),
    ],
)
def test_the_widest_gradient_decides_the_dtype(dtypes: tuple[str, ...], wanted: str) -> None:
    assert small(*dtypes).dtype == np.dtype(wanted)


@pytest.mark.parametrize(
    ("dtype", "wanted"),
    [("float64", "float64"), ("int64", "float64"), ("uint64", "float64"), ("int32", "float32")],
)
def test_sums_of_64_bits_are_not_rounded(dtype: str, wanted: str) -> None:
    """A counter of 300,000,570 would be one of 300,000,576."""
    layout = replace(small("float32"), sums=(Segment("increment of count", (), dtype),))
    assert layout.dtype == np.dtype(wanted)
    assert replace(small("float32"), means=layout.sums).dtype == np.float32


def test_the_header_is_the_end_of_the_tail() -> None:
    layout = small("float32")
    header = Header(samples=64, fingerprint=12345, stop=1, nonfinite=2, learning_rate=0.5, ranks=3)
    vector = np.zeros(layout.size, layout.dtype)
    auxiliary = layout.views(vector)[-1]
    auxiliary[-len(Header._fields) :] = header
    assert header_of(auxiliary) == header
    assert Header() == (0, 0, 0, 0, 0, 0, 0, 0, 0, 1)


def test_headers_of_ranks_add_up() -> None:
    auxiliaries = [
        np.array(Header(samples=rank, fingerprint=2 * rank), np.float32) for rank in range(4)
    ]
    total = header_of(np.sum(auxiliaries, axis=0))
    assert (total.samples, total.fingerprint, total.ranks) == (6, 12, 4)


def test_blame_names_each_part_that_is_not_finite() -> None:
    layout = small("float32", "float64")
    vector = np.zeros(layout.size, layout.dtype)
    assert layout.nonfinite_names(vector) == []
    first, second, auxiliary = layout.views(vector)
    first[0, 1] = np.nan
    second[:] = np.inf
    auxiliary[2:5] = -np.inf
    auxiliary[-1] = np.nan
    assert layout.nonfinite_names(vector) == [
        "gradient float32 (1 of 6 values)",
        "gradient float64 (6 of 6 values)",
        "mean (2 of 4 values)",
        "sum (1 of 1 values)",
    ]


def test_a_segment_describes_an_array() -> None:
    class Variable:
        name = "kernel"
        path = "dense/kernel"
        shape = (np.int64(3), 2)
        dtype = np.dtype("float32")

    segment = segment_of("gradient of", Variable())
    assert segment == Segment("gradient of dense/kernel", (3, 2), "float32")
    assert segment.size == 6
    assert segment_of("sum of", Variable(), "auc").name == "sum of auc"
    assert Segment("scalar", (), "float32").size == 1
